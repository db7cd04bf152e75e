"""`eagleray storage` reads directories that earlier versions have written: nothing is wrong, all is known."""

import tarfile

import pytest

from eagleray.offline.dump_log import Wanted
from eagleray.offline.dumping import dump_file, files_at
from eagleray.offline.strays import list_strays
from eagleray.offline.verifying import verify
from tests.golden.write_data_directory import DATA
from tests.support.data_directories import state_of

VERSIONS = sorted(path.stem for path in DATA.glob("*.json"))


@pytest.fixture(params=VERSIONS)
def folder(request, tmp_path):
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_directory_of_an_earlier_version_is_whole_and_does_not_change(folder, name):
    before = state_of(folder / name)
    (verified,) = verify(str(folder / name))
    assert verified.is_whole, verified.findings
    assert "compacted-0" in verified.partitions
    assert list_strays(str(folder / name)) == []
    assert state_of(folder / name) == before


def test_all_files_of_an_earlier_version_are_shown(folder):
    for path in files_at(str(folder / "stopped")):
        lines = dump_file(path, Wanted(records=True, contents=True))
        if lines is None:
            assert path.endswith((".lock", ".port")), path
            continue
        for line in lines:
            assert "damaged" not in line, path
            assert "isvalid: false" not in line
            assert "Error at decoding" not in line
