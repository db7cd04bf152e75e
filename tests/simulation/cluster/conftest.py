"""What all tests of the simulated cluster have in common."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Nodes complain of their disks all the time here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
