"""Fixtures for the tests against programs that we did not write."""

import os
from typing import NoReturn

import pytest

from tests.compat.kafka_tools.dump_log import KafkaTools
from tests.compat.kafka_tools.jars import ToolsUnavailableError


@pytest.fixture(scope="session")
def kafka_tools() -> KafkaTools:
    """Apache Kafka's own tools."""
    try:
        return KafkaTools.find()
    except ToolsUnavailableError as error:
        give_up(str(error))


def give_up(reason: str) -> NoReturn:
    """Skip, for a machine may lack what a test needs; but fail in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
