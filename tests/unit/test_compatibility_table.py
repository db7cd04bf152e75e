"""docs/compatibility.md has the table that the code would give it."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from eagleray.protocol.codec import APIS
from tests.support.scripts import check_document, load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("compatibility_table")


def test_the_document_is_up_to_date():
    check_document("compatibility_table")


def test_a_stale_document_is_noticed(script: ModuleType, tmp_path: Path):
    document = tmp_path / "compatibility.md"
    document.write_text(script.with_table(f"before\n{script.BEGIN}{script.END}\nafter\n"))
    assert script.is_up_to_date(document)
    document.write_text(document.read_text().replace("| 26 | EndTxn | 0-5 |", "| 26 | EndTxn | 0-4 |"))
    assert not script.is_up_to_date(document)


def test_a_document_without_marks_is_refused(script: ModuleType):
    with pytest.raises(ValueError, match="marks"):
        script.with_table("no table here")


def test_every_api_has_a_row(script: ModuleType):
    rows = script.render_table().splitlines()[2:]
    assert len(rows) == len(APIS)
    assert "| 71 | GetTelemetrySubscriptions | 0 | 0 | no |  |" in rows
    [row] = [row for row in rows if row.startswith("| 22 | InitProducerId | 0-6 | 2 | 0-5 | version 6 is not stable")]
    assert "`transaction.two.phase.commit.enable`" in row


def test_served_versions_show(script: ModuleType, monkeypatch: pytest.MonkeyPatch):
    served = {26: SimpleNamespace(lowest=0, highest=5), 47: SimpleNamespace(lowest=0, highest=0)}
    monkeypatch.setattr(script, "SERVED", served)
    rows = script.render_table().splitlines()
    assert "| 26 | EndTxn | 0-5 | 3 | 0-5 |  |" in rows
    assert "| 47 | OffsetDelete | 0 | never | 0 |  |" in rows
