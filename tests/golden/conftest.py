"""What earlier versions have written, opened without Ray."""

from tests.support.without_ray import without_ray

__all__ = ["without_ray"]
