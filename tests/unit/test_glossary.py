"""The glossary names classes and files that there are."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ROW = re.compile(r"\| (?P<term>[^|]+) \| [^|]+ \| [^|]+ \| `(?P<name>\w+)` \| `(?P<path>[\w/.]+)` \|")
ROWS = [line for line in (REPOSITORY / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")][1:]


def test_glossary_has_a_class_and_a_file_for_each_term():
    assert [row for row in ROWS if not ROW.fullmatch(row)] == []


def test_glossary_has_each_term_once_and_in_order():
    terms = [found["term"] for row in ROWS if (found := ROW.fullmatch(row))]
    assert terms == sorted({*terms}, key=str.casefold)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_class_of_the_glossary_is_in_its_file(row):
    found = ROW.fullmatch(row)
    assert found is not None
    assert re.search(rf"^class {found['name']}\b", (REPOSITORY / found["path"]).read_text(), re.MULTILINE)


def test_architecture_leads_to_the_glossary():
    assert "(docs/glossary.md)" in (REPOSITORY / "ARCHITECTURE.md").read_text()
