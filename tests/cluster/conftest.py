"""One Ray for all tests of this folder, and on it one cluster for each layout, started when a test first wants it."""

from pathlib import Path

import pytest

from tests.support.clusters import LAYOUTS
from tests.support.ray_here import isolated_ray


def pytest_collection_modifyitems(items):
    """Let one process run all tests of this folder, because each process would start a Ray and clusters of its own."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def ray_here(tmp_path_factory):
    """Ray, for all tests of this folder."""
    with isolated_ray(str(tmp_path_factory.mktemp("clusters"))) as here:
        yield here


@pytest.fixture(params=LAYOUTS)
def cluster(ray_here, request):
    """A shared cluster of each layout."""
    return ray_here.shared(request.param)


@pytest.fixture
def separate(ray_here):
    """The shared cluster in which every role has a process of its own."""
    return ray_here.shared("separate")


@pytest.fixture
def colocated(ray_here):
    """The shared cluster whose nodes have a share of every role."""
    return ray_here.shared("colocated")
