"""The pages of README and docs say which of their blocks no test runs, and why; and the reader of pages reads right."""

import ast
import re

import pytest

from tests.support.pages import PAGES, REPOSITORY, RUN, Block, Command, blocks_of, commands_of, matches, parse

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
NOT_RUN = [block for block in BLOCKS if block.not_run is not None]


def test_few_blocks_are_not_run_and_each_says_why():
    assert len(NOT_RUN) <= 12
    assert [block.where for block in NOT_RUN if len(block.not_run or "") < 20] == []


def test_block_is_run_or_says_why_not():
    assert neither_run_nor_excused(BLOCKS) == []


def neither_run_nor_excused(blocks: list[Block]) -> list[str]:
    return [block.where for block in blocks if block.language in RUN and not block.is_run and block.not_run is None]


def test_block_of_a_page_that_no_test_runs_is_found():
    (block,) = parse("docs/new.md", "```sh\nmake test\n```\n")
    assert neither_run_nor_excused([block]) == ["docs/new.md:1"]


def test_commands_are_in_blocks_of_the_console():
    only_read = [block for block in BLOCKS if block.language not in RUN]
    assert [block.where for block in only_read if re.search(r"^\$ ", block.text, re.MULTILINE)] == []


def test_tests_that_run_a_block_elsewhere_are_there():
    named = {path for block in NOT_RUN for path in re.findall(r"tests/[\w/]+\.py", block.not_run or "")}
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_languages_are_those_that_are_run_or_only_read():
    assert {block.language for block in BLOCKS} <= {*RUN, "json", "mermaid", "text", "ini", "yaml", ""}


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda block: block.where
)
def test_python_block_is_python(block: Block):
    ast.parse(block.text)


def test_comment_above_a_block_is_its_own():
    first, second = parse("page", "<!-- not run: because -->\n```sh\na\n```\n\n```toml\nb\n```\n")
    assert (first.not_run, first.line, first.text) == ("because", 2, "a")
    assert (second.not_run, second.line, second.text) == (None, 6, "b")


def test_comment_that_no_test_knows_is_refused():
    with pytest.raises(AssertionError, match="what no test knows"):
        parse("page", "<!-- not-run: because -->\n```sh\na\n```\n")


def test_commands_go_on_behind_a_backslash():
    block = Block("page", 1, "console", "$ one \\\n    two\nshown\n$ three")
    assert commands_of(block) == [Command("one \\\n    two", ("shown",)), Command("three", ())]


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        (("a  b",), "a b\n", True),
        (("a", "", "b"), "a\nb\n \n", True),
        (("───",), "─────\n", True),
        (("a",), "a\nb\n", False),
        (("a …",), "a 1 2\n", True),
        (("…", "b"), "x\ny\nb\n", True),
        (("…", "b"), "x\nb\ny\n", False),
        (("1 row",), "2 row\n", False),
    ],
)
def test_placeholders_stand_for_text(shown: tuple[str, ...], printed: str, is_same: bool):
    assert matches(shown, printed) is is_same


def test_figures_that_vary_stand_for_numbers_alone():
    shown = ("batch 0: 39,971 rows, 1.5 s",)
    assert matches(shown, "batch 17: 12 rows, 137,208 s\n", figures_vary=True)
    assert not matches(shown, "batch x: 12 rows, 1 s\n", figures_vary=True)
