"""Exactly-once streams on the Ray cluster you already have."""
