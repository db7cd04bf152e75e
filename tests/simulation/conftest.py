"""Whole clusters in one process, simulated from a seed, without Ray."""

from tests.support.without_ray import without_ray

__all__ = ["without_ray"]
