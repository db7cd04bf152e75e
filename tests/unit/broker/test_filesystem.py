"""The file-system port: the real disk and the simulated one keep the same promises."""

import errno
import os
from pathlib import Path

import pytest

from eagleray.broker.filesystem import (
    MAX_BUFFERS_PER_WRITE,
    FileSystem,
    FlushFailed,
    LocalFileSystem,
    sync_file_system,
    write_atomically,
    write_fully,
)
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.simulated_disk import SimulatedDisk


@pytest.fixture(params=["local", "simulated"])
def file_system(request: pytest.FixtureRequest) -> FileSystem:
    return LocalFileSystem() if request.param == "local" else SimulatedDisk()


@pytest.fixture
def directory(file_system: FileSystem, tmp_path: Path) -> str:
    path = str(tmp_path / "topic-0")
    file_system.make_directories(path)
    return path


def test_a_file_grows_at_its_end_and_is_read_anywhere(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    assert file.size() == 0
    assert file.write([b"one", memoryview(b"two"), bytearray(b"three")]) == 11
    assert file.write([b"four"]) == 4
    assert (file.size(), file.read(0, 100), file.read(3, 3), file.read(20, 5)) == (15, b"onetwothreefour", b"two", b"")
    file.close()


def test_writing_nothing_takes_nothing(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    assert file.write([]) == 0
    assert file.write([b""]) == 0
    assert file.size() == 0
    file.close()


def test_written_bytes_are_there_for_the_next_open(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    file.write([b"abc"])
    file.flush()
    file.close()
    again = file_system.open(f"{directory}/file")
    again.write([b"def"])
    assert again.read(0, 10) == b"abcdef"
    again.close()
    assert file_system.read_bytes(f"{directory}/file") == b"abcdef"


def test_a_file_that_was_cut_grows_from_there(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    file.write([b"abcdef"])
    file.truncate(2)
    assert (file.size(), file.read(0, 10)) == (2, b"ab")
    file.write([b"X"])
    assert file.read(0, 10) == b"abX"
    file.close()


def test_more_buffers_than_the_kernel_takes_are_refused(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EINVAL):
        file.write([b"x"] * (MAX_BUFFERS_PER_WRITE + 1))
    assert file.size() == 0
    file.close()


@pytest.mark.parametrize("count", [0, 1, MAX_BUFFERS_PER_WRITE, MAX_BUFFERS_PER_WRITE + 1, 3 * MAX_BUFFERS_PER_WRITE])
def test_write_fully_takes_any_number_of_buffers(file_system: FileSystem, directory: str, count: int):
    file = file_system.open(f"{directory}/file")
    buffers = [b"%d," % number for number in range(count)]
    write_fully(file, buffers, sum(map(len, buffers)))
    assert file.read(0, file.size()) == b"".join(buffers)
    file.close()


def test_a_file_that_was_given_back_is_not_used_again(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    file.close()
    for use in (file.size, file.flush, file.close, lambda: file.read(0, 1), lambda: file.write([b"x"])):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EBADF):
            use()


def test_names(file_system: FileSystem, directory: str):
    assert file_system.exists(directory)
    assert not file_system.exists(f"{directory}/b")
    for name in ("b", "a", "c"):
        file_system.open(f"{directory}/{name}").close()
    assert file_system.list_directory(directory) == ["a", "b", "c"]
    file_system.remove(f"{directory}/b")
    file_system.remove(f"{directory}/b")
    assert file_system.list_directory(directory) == ["a", "c"]
    file_system.flush_directory(directory)


def test_directories_are_made_with_their_parents_and_may_be_there(file_system: FileSystem, directory: str):
    file_system.make_directories(f"{directory}/one/two")
    file_system.make_directories(f"{directory}/one/two")
    assert file_system.list_directory(directory) == ["one"]
    assert file_system.list_directory(f"{directory}/one") == ["two"]


def test_missing_file_is_named(file_system: FileSystem, directory: str):
    missing = f"{directory}/missing"
    for use in (
        lambda: file_system.read_bytes(missing),
        lambda: file_system.list_directory(missing),
        lambda: file_system.flush_directory(missing),
        lambda: file_system.open(f"{missing}/file"),
        lambda: file_system.rename(missing, f"{directory}/other"),
    ):
        with pytest.raises(FileNotFoundError):
            use()
    assert file_system.list_directory(directory) == []


def test_a_rename_replaces_its_target_under_those_who_have_it_open(file_system: FileSystem, directory: str):
    source, target = f"{directory}/source", f"{directory}/target"
    for path, data in ((source, b"new"), (target, b"old")):
        file = file_system.open(path)
        file.write([data])
        file.close()
    reader = file_system.open(target)
    file_system.rename(source, target)
    assert file_system.list_directory(directory) == ["target"]
    assert (file_system.read_bytes(target), reader.read(0, 10)) == (b"new", b"old")
    reader.close()


def test_a_removed_file_stays_with_those_who_have_it_open(file_system: FileSystem, directory: str):
    file = file_system.open(f"{directory}/file")
    file.write([b"abc"])
    file_system.remove(f"{directory}/file")
    assert not file_system.exists(f"{directory}/file")
    assert file.read(0, 10) == b"abc"
    file.close()


def test_write_atomically_replaces_a_file_and_what_a_crash_left(file_system: FileSystem, directory: str):
    path = f"{directory}/checkpoint"
    left = file_system.open(f"{path}.tmp")
    left.write([b"half of an earlier attempt"])
    left.close()
    write_atomically(file_system, path, b"one")
    assert file_system.read_bytes(path) == b"one"
    write_atomically(file_system, path, b"two")
    assert file_system.read_bytes(path) == b"two"
    assert file_system.list_directory(directory) == ["checkpoint"]


def test_the_boot_id_stays_while_the_machine_runs(file_system: FileSystem):
    assert file_system.boot_id() == file_system.boot_id() != ""


def test_write_fully_goes_on_after_short_writes():
    disk = SimulatedDisk()
    file = disk.open("/file")
    with disk.injected(Fault(Outcome.SHORT, on=Operation.WRITE, done_bytes=3)):
        write_fully(file, [b"abc", b"def", b"ghi"], 9)
    with disk.injected(Fault(Outcome.SHORT, on=Operation.WRITE, done_bytes=1, is_lasting=True)):
        write_fully(file, [b"jk", b"lmn"], 5)
    assert disk.read_bytes("/file") == b"abcdefghijklmn"


def test_write_fully_gives_up_on_a_disk_that_takes_nothing():
    disk = SimulatedDisk()
    stuck = Fault(Outcome.SHORT, on=Operation.WRITE, done_bytes=0, is_lasting=True)
    with disk.injected(stuck), pytest.raises(OSError, match="took none of the last 3 bytes"):
        write_fully(disk.open("/file"), [b"abc"], 3)


def test_a_name_that_cannot_be_flushed_is_told_apart_from_bytes_that_were_not_written():
    disk = SimulatedDisk()
    write_atomically(disk, "/file", b"old")
    for operation in (Operation.RENAME, Operation.FLUSH_DIRECTORY):
        with disk.injected(Fault(Outcome.FAIL, on=operation, done_bytes=1)), pytest.raises(FlushFailed):
            write_atomically(disk, "/file", b"new")
        assert disk.read_bytes("/file") == b"new"
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH)), pytest.raises(OSError, match="error") as caught:
        write_atomically(disk, "/file", b"newer")
    assert not isinstance(caught.value, FlushFailed)
    assert disk.read_bytes("/file") == b"new"


@pytest.mark.parametrize("survives", [True, False])
def test_write_atomically_gives_the_old_bytes_or_the_new_after_any_crash(survives: bool):
    before = SimulatedDisk(sector_bytes=2)
    write_atomically(before, "/file", b"old bytes")
    rehearsal = before.copy()
    write_atomically(rehearsal, "/file", b"new bytes!")
    for number, step in enumerate(rehearsal.trace[len(before.trace) :]):
        for done_bytes in range(step.size_bytes + 1):
            for loses_power in (True, False):
                disk = before.copy()
                fault = Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)
                with disk.injected(fault), pytest.raises(ProcessKilled):
                    write_atomically(disk, "/file", b"new bytes!")
                disk.lose_power(lambda: survives) if loses_power else disk.crash_process()
                assert disk.read_bytes("/file") in (b"old bytes", b"new bytes!")
                write_atomically(disk, "/file", b"newest")
                disk.lose_power(lambda: False)
                assert disk.read_bytes("/file") == b"newest"


def test_directories_are_flushed_into_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A new partition's files are lost with its directory's name, however often they are flushed themselves."""
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    LocalFileSystem().make_directories(str(tmp_path / "one" / "two"))
    assert set(flushed) == {str(tmp_path), str(tmp_path / "one")}
    flushed.clear()
    LocalFileSystem().make_directories(str(tmp_path / "one" / "two"))
    assert flushed == []


def test_a_whole_file_system_can_be_synced_and_a_missing_directory_is_an_error(tmp_path):
    (tmp_path / "written").write_bytes(b"something")
    sync_file_system(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        sync_file_system(str(tmp_path / "missing"))
