"""Strangers at whole nodes in one process, without Ray."""

from tests.support.without_ray import without_ray

__all__ = ["without_ray"]
