"""One Ray, one cluster and one Spark for all tests of this folder.

One process runs them, each module says so: Spark takes half a minute to start and all the memory that it can get.
Tests whose drivers are processes of their own come first: a small machine's cores are enough for one Spark.
"""

import os
import shutil

import pytest

from eagleray.pipelines.session import native_libraries, spark_session
from tests.compat.kafka_tools.jars import ToolsUnavailableError, find_java
from tests.support.clusters import fresh, until_running
from tests.support.java import QUICK_JAVA
from tests.support.ray_here import isolated_ray
from tests.support.spark import SPECULATION


def pytest_collection_modifyitems(items):
    """Run drivers of their own before the session that all other tests share holds an executor."""
    items.sort(key=lambda item: item.get_closest_marker("own_spark") is None)


@pytest.fixture(scope="session")
def java():
    """Skip without Java, unless nothing may be skipped; let what Spark starts of it start soon."""
    try:
        found = find_java()
    except ToolsUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        for name, text in QUICK_JAVA.items():
            patch.setenv(name, text)
        yield found


@pytest.fixture(scope="session")
def ray_here(java, tmp_path_factory):
    """Ray, for all tests of this folder; what drivers leave behind that are killed goes with it."""
    libraries_before = native_libraries()
    with isolated_ray(str(tmp_path_factory.mktemp("pipelines"))) as here:
        yield here
    for folder in native_libraries() - libraries_before:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def started_cluster(ray_here):
    with ray_here.start("colocated", name="default") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark(started_cluster):
    """A session on the same Ray as the cluster, which its data source knows."""
    # Ray Data waits for ever where executors have every CPU, and some machines have two.
    config = {**SPECULATION, "spark.ray.raydp_spark_executor.actor.resource.cpu": "1"}
    with spark_session("tests", address=None, config=config) as session:
        session.sparkContext.setLogLevel("ERROR")
        yield session


@pytest.fixture
def cluster(started_cluster):
    """The cluster, with all of its nodes running."""
    until_running(started_cluster)
    return started_cluster


@pytest.fixture
def topic(cluster):
    """A topic of the test's own, with four partitions."""
    name = fresh("topic")
    cluster.admin.create_topic(name, partitions=4)
    return name


@pytest.fixture
def target(cluster):
    """A topic for queries to write to, with two partitions."""
    name = fresh("target")
    cluster.admin.create_topic(name, partitions=2)
    return name
