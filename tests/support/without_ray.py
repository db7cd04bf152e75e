"""A fixture for folders whose tests start no Ray: there `ray.init` raises."""

from collections.abc import Iterator

import pytest
import ray


@pytest.fixture(scope="module", autouse=True)
def without_ray() -> Iterator[None]:
    """Let `ray.init` raise; a folder's conftest imports this, and so all of its tests have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "init", _refuse)
        yield


def _refuse(*_arguments: object, **_options: object) -> None:
    raise AssertionError("a test of this folder starts Ray; one that needs Ray belongs into tests/cluster")
