"""The tests of this folder cannot start Ray."""

import pytest
import ray


def test_ray_cannot_be_started_here():
    with pytest.raises(AssertionError, match="belongs into tests/cluster"):
        ray.init()
