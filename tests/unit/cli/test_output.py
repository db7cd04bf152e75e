"""Tables, and how many there are of something."""

import io

import pytest
from rich.console import Console

from eagleray.cli import output
from eagleray.cli.output import as_blocks, counted, least_width, print_table

STATUS = ("node", "roles", "machine", "pid", "address", "Ray node", "registered", "restarts")
ROWS = [
    (
        "0",
        "controller, allocator, coordinator",
        "10.20.30.40",
        "123456",
        "10.20.30.40:35123",
        "0a1b2c3d4e5f",
        "yes",
        "0",
    ),
    ("100", "leader", "10.20.30.41", "123457", "10.20.30.41:35124", "1a1b2c3d4e5f", "yes", "12"),
]


def shown(monkeypatch, width, columns=STATUS, rows=ROWS, *, is_terminal=True):
    written = io.StringIO()

    def console(**options):
        return Console(**({"width": width} | options), file=written, force_terminal=is_terminal, color_system=None)

    monkeypatch.setattr(output, "Console", console)
    monkeypatch.setattr(output.typer, "echo", lambda text: written.write(f"{text}\n"))
    print_table(columns, rows, empty="nothing")
    return written.getvalue()


def words(cells):
    return {word for row in cells for cell in row for word in cell.split()}


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132, 200])
def test_table_fits_the_terminal_without_broken_words(monkeypatch, width):
    text = shown(monkeypatch, width)
    assert max(map(len, text.splitlines())) <= width
    assert words(ROWS) | words([STATUS]) <= set(text.split())


def test_table_that_does_not_fit_becomes_blocks():
    assert least_width(STATUS, ROWS) > 80
    first, second = as_blocks(STATUS, ROWS, 80)
    assert first.splitlines()[1] == "roles       controller, allocator, coordinator"
    assert second.splitlines()[0] == "node        100"


def test_word_that_is_too_long_for_any_terminal_stays_whole(monkeypatch):
    name = "a" * 100
    assert name in shown(monkeypatch, 80, ("topic", "partitions"), [(name, "1")])


def test_table_for_a_program_is_not_cut(monkeypatch):
    rows = [("x" * 300, "two words " * 30)]
    lines = shown(monkeypatch, 80, ("one", "two"), rows, is_terminal=False).splitlines()
    assert any("x" * 300 in line and ("two words " * 30).strip() in line for line in lines)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (2000, "2,000 records")]
)
def test_counts_have_the_right_plural(count, text):
    assert counted(count, "record") == text


def test_irregular_plural_is_given():
    assert counted(2, "copy", "copies") == "2 copies"
