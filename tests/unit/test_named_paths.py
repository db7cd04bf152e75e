"""What the pages link to or name in prose is there: files, folders, modules and tests of the repository."""

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from tests.support.pages import PAGES, REPOSITORY

LIST = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
TRACKED = frozenset(
    subprocess.run(LIST, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
)
FOLDERS = frozenset(str(parent) for path in TRACKED for parent in PurePosixPath(path).parents)
AT_THE_TOP = frozenset(path.partition("/")[0] for path in TRACKED)

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
MODULE = re.compile(r"eagleray(\.\w+)+")
TEST = re.compile(r"`(test_\w+)` in `(tests/[\w/]+\.py)`")
BUGS = "## Bugs of Kafka's transactions that you do not have here"


def prose_of(page: str) -> str:
    """A page without its blocks, which tests/docs runs."""
    return FENCED.sub("", (REPOSITORY / page).read_text())


def is_overturned(page: str) -> bool:
    """Whether a decision counts no longer: it speaks of what there was."""
    return "**Status:** overturned" in (REPOSITORY / page).read_text()


def missing_links(page: str, text: str) -> list[str]:
    """The links to files and headings that there are none of."""
    return [target for target in LINK.findall(text) if ":" not in target and not leads_somewhere(page, target)]


def leads_somewhere(page: str, target: str) -> bool:
    path, _, heading = target.partition("#")
    found = (REPOSITORY / page).parent / path if path else REPOSITORY / page
    if not heading:
        return found.exists()
    return found.is_file() and heading in headings_of(found)


def headings_of(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def missing_paths(text: str) -> list[str]:
    """The paths and modules between backticks that there are none of."""
    return [quoted for quoted in QUOTED.findall(text) if not is_there(quoted)]


def is_there(quoted: str) -> bool:
    """Whether it names something of the repository that there is, or nothing of the repository at all."""
    if MODULE.fullmatch(quoted):
        return is_module_or_name(quoted)
    if not PATH.fullmatch(quoted):
        return True
    path = quoted.rstrip("/")
    if "/" in path and path.partition("/")[0] in AT_THE_TOP:
        return path in TRACKED or path in FOLDERS
    # A page that speaks of a folder names the files in it without the folder.
    return not path.endswith(".py") or any(f"/{tracked}".endswith(f"/{path}") for tracked in TRACKED)


def is_module_or_name(dotted: str) -> bool:
    """Whether it is a module, or a name in one; folders at the top are installed below `eagleray`."""
    parts = dotted.split(".")[1:]
    for length in range(len(parts), -1, -1):
        for folder in ("", "eagleray/"):
            path = folder + "/".join(parts[:length])
            for file in (f"{path}.py", f"{path.rstrip('/')}/__init__.py"):
                if file in TRACKED:
                    return length == len(parts) or has_name(file, parts[length])
    return False


def has_name(file: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", (REPOSITORY / file).read_text()) is not None


def missing_tests(text: str) -> list[str]:
    """The tests named with their files that there are none of."""
    return [name for name, file in TEST.findall(text) if not is_test_of(file, name)]


def is_test_of(file: str, name: str) -> bool:
    return (
        file in TRACKED
        and re.search(rf"^ *(async )?def {name}\(", (REPOSITORY / file).read_text(), re.MULTILINE) is not None
    )


def bugs_of_kafka() -> list[str]:
    """The rows of the table in docs/transactions.md, without its head."""
    section = (REPOSITORY / "docs/transactions.md").read_text().partition(f"\n{BUGS}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str):
    assert missing_links(page, prose_of(page)) == []


@pytest.mark.parametrize("page", [page for page in PAGES if not is_overturned(page)])
def test_paths_and_modules_in_prose_are_there(page: str):
    assert missing_paths(prose_of(page)) == []


@pytest.mark.parametrize(
    "quoted",
    ["broker/nothing.py", "tests/nothing", "nothing.py", "eagleray.broker.nothing", "eagleray.aio.no_such_name"],
)
def test_path_that_is_not_there_is_found(quoted: str):
    assert missing_paths(f"See `{quoted}`.") == [quoted]


@pytest.mark.parametrize("target", ["nothing.md", "docs/nothing.md", "docs/clients.md#nothing", "#nothing"])
def test_link_that_leads_nowhere_is_found(target: str):
    assert missing_links("README.md", f"See [this]({target}).") == [target]


@pytest.mark.parametrize("page", PAGES)
def test_tests_in_prose_are_there(page: str):
    assert missing_tests(prose_of(page)) == []


@pytest.mark.parametrize("file", ["tests/unit/test_named_paths.py", "tests/unit/test_nothing.py"])
def test_test_that_is_not_there_is_found(file: str):
    assert missing_tests(f"See `test_nothing_at_all` in `{file}`.") == ["test_nothing_at_all"]


def test_bug_of_kafka_has_one_row_and_one_test():
    rows = bugs_of_kafka()
    bugs = [row.split("|")[1].strip() for row in rows]
    assert {f"KAFKA-{number}" for number in (17754, 19999, 20785, 18019, 18660, 19367)} <= set(bugs)
    assert len(set(bugs)) == len(bugs)
    assert [row for row in rows if len(TEST.findall(row)) != 1] == []


def test_decisions_are_listed_by_their_titles():
    index = (REPOSITORY / "docs/adr/README.md").read_text()
    rows = dict(re.findall(r"^\| \[\d+\]\((\S+)\) \| (.+?)(?: \(overturned by \d+\))? \|$", index, re.MULTILINE))
    files = sorted((REPOSITORY / "docs/adr").glob("[0-9]*.md"))
    assert rows == {file.name: file.read_text().partition("\n")[0].partition(". ")[2] for file in files}
    assert [file.name for file in files if not file.read_text().startswith(f"# {int(file.name[:4])}. ")] == []


def test_overturned_decision_names_its_successor():
    overturned = [page for page in PAGES if is_overturned(page)]
    assert overturned
    for page in overturned:
        successor = re.search(r"\*\*Status:\*\* overturned by \[ADR \d+\]\((\S+)\)", (REPOSITORY / page).read_text())
        assert successor is not None, page
        assert Path(page).name in (REPOSITORY / "docs/adr" / successor[1]).read_text()
