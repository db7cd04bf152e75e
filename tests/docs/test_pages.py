"""The commands and the Python of README and docs are run, in order, as a reader would."""

import os
import shutil

import pytest

from tests.docs.reader import Reader
from tests.support.pages import READ_IN_ORDER, Block, blocks_of

pytestmark = pytest.mark.slow

TOOLS = {"kcat": "$ kcat", "java": "spark_session"}


@pytest.fixture
def reader():
    reader = Reader()
    yield reader
    reader.close()


@pytest.mark.parametrize("page", READ_IN_ORDER)
def test_page_does_what_it_says(reader: Reader, page: str):
    blocks = [block for block in blocks_of(page) if block.is_run]
    skip_without_tools(blocks)
    reader.read(page, blocks)


def skip_without_tools(blocks: list[Block]):
    text = "".join(block.text for block in blocks)
    missing = [tool for tool, word in TOOLS.items() if word in text and not shutil.which(tool)]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"the page needs {missing}")
