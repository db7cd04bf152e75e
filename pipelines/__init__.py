"""Spark on the same cluster: exactly-once pipelines."""
