"""Pipelines to run and to copy from."""
