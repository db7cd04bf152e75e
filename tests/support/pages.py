"""Markdown pages as a person reads them: what is to be pasted, in order, and what is to be seen then.

A comment in the line above a block says what a reader knows without being told:

    <!-- not run: REASON -->   it needs what a test does not have
    <!-- file: NAME -->        the block is the content of this file
    <!-- figures vary -->      each number that is shown stands for any number

In what a console shows, `…` stands for any text of a line, and a line that is only `…` for any lines. Blanks count as
one, as do the dashes that rule a table, and empty lines not at all. What is not shown is not compared; a command may
fail only where the page shows an `error:`.
"""

import re
from pathlib import Path

import msgspec

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *sorted(str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")),
)
RUN = ("python", "console", "sh", "toml")
"""The languages of what is pasted; all others are only read."""

READ_IN_ORDER = ("README.md", "docs/api.md", "docs/deploy.md", "docs/security.md", "docs/pipelines.md")
"""The pages that tests/docs/test_pages.py follows, from the first block to the last."""

ANYTHING = "…"
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?")


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    file: str | None = None
    figures_vary: bool = False

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a test runs the block: its page is run by one, and no comment takes the block out."""
        return self.not_run is None and self.page in READ_IN_ORDER and self.language in RUN


class Command(msgspec.Struct, frozen=True):
    """A command of a console block, and the lines that are shown below it."""

    text: str
    shown: tuple[str, ...]


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, each with what the comment above it says."""
    return parse(page, (REPOSITORY / page).read_text())


def parse(page: str, text: str) -> list[Block]:
    found, above, lines = [], "", iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("```"):
            content = []
            for _, inner in lines:
                if inner.startswith("```"):
                    break
                content.append(inner)
            found.append(
                Block(page, number, line.removeprefix("```").strip(), "\n".join(content), **_said(page, number, above))
            )
        above = line
    return found


def _said(page: str, number: int, above: str) -> dict[str, object]:
    comment = re.fullmatch(r"<!-- (not run|file|figures vary)(?:: (.+?))? -->", above)
    if comment is None:
        assert not above.startswith("<!--") or "table" in above.lower(), (
            f"{page}:{number - 1} says what no test knows: {above}"
        )
        return {}
    word, value = comment.groups()
    if word == "figures vary":
        return {"figures_vary": True}
    assert value, f"{page}:{number - 1}: `{word}` says nothing"
    return {word.replace(" ", "_"): value}


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block; a line that ends with a backslash goes on in the next."""
    commands: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(([line.removeprefix("$ ")], []))
        elif not commands:
            raise AssertionError(f"{block.where}: a console block begins with `$ `, not with {line!r}")
        elif commands[-1][0][-1].endswith("\\"):
            commands[-1][0].append(line)
        else:
            commands[-1][1].append(line)
    return [Command("\n".join(text), tuple(shown)) for text, shown in commands]


def matches(shown: tuple[str, ...], printed: str, *, figures_vary: bool = False) -> bool:
    """Whether what was printed is what a page shows."""
    wanted = "".join(_pattern(line, figures_vary=figures_vary) for line in shown if line.strip())
    lines = [_evened(line) for line in printed.splitlines() if line.strip()]
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in lines)) is not None


def _evened(line: str) -> str:
    """The line without what depends on how wide its neighbours are."""
    return re.sub("─+", "─", " ".join(line.split()))


def _pattern(line: str, *, figures_vary: bool) -> str:
    text = _evened(line)
    if text == ANYTHING:
        return r"(?:.*\n)*?"
    pattern, end = "", 0
    for part in re.finditer(rf"{ANYTHING}|{_NUMBER.pattern}" if figures_vary else ANYTHING, text):
        pattern += re.escape(text[end : part.start()])
        pattern += ".*" if part[0] == ANYTHING else _NUMBER.pattern
        end = part.end()
    return f"{pattern}{re.escape(text[end:])}\n"
