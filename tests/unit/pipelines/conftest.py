"""A cluster in this process, for the parts of the data source that talk to one."""

import pytest

from tests.support.pipelines_world import Here


@pytest.fixture
def here():
    with Here() as here:
        yield here
