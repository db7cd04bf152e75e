"""The commands of docs/pipelines.md that start a Spark of their own, run with the session that tests share."""

import shlex
from contextlib import nullcontext

import pytest

from eagleray.pipelines.cli import example_commands, loadtesting
from tests.support.cli_cluster import succeed
from tests.support.pages import Block, blocks_of, commands_of, matches

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

BLOCKS = [block for block in blocks_of("docs/pipelines.md") if "tests/pipelines/test_pages.py" in (block.not_run or "")]


@pytest.fixture
def shared_spark(cluster, spark, monkeypatch, tmp_path):
    """Commands are given the cluster and the session of the tests, and run in a folder of their own."""
    for command in (example_commands, loadtesting):
        monkeypatch.setattr(command, "cluster_of", lambda *_, **__: nullcontext(cluster))
        monkeypatch.setattr(command, "quiet_spark", lambda *_, **__: nullcontext(spark))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def test_blocks_are_found():
    assert [block.text.split()[3] for block in BLOCKS] == ["example", "loadtest"]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_command_shows_what_the_page_says(shared_spark, block: Block):
    (command,) = commands_of(block)
    program, *arguments = shlex.split(command.text)
    assert program == "eagleray"
    printed = succeed(*arguments).output
    assert matches(command.shown, printed, figures_vary=True), printed
