"""An overlay shows what would be on the disk, and nothing of it comes there."""

import os
import shutil

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import LogConfig, LogDamaged, PartitionLog
from eagleray.broker.log.accepted_loss import accept_loss
from eagleray.broker.log.errors import LossNotAccepted
from eagleray.offline.overlay import Overlay
from tests.support.batches import NOW_MS
from tests.support.data_directories import flip, state_of

ORDERS = "logs/orders-0"
LAST = f"{66:020d}.log"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "below"
    folder.mkdir()
    (folder / "a").write_bytes(b"0123456789")
    (folder / "b").write_bytes(b"b")
    return folder


def content(files, folder):
    return {name: files.read_bytes(f"{folder}/{name}") for name in files.list_directory(str(folder))}


def steps():
    """What is done to files, each alike on any file system."""

    def append(files, folder):
        file = files.open(f"{folder}/a")
        assert file.write((b"xy", b"z")) == 3
        assert (file.size(), file.read(8, 4), file.read(20, 4)) == (13, b"89xy", b"")
        file.close()

    def truncate(files, folder):
        file = files.open(f"{folder}/a")
        for size in (4, 6, 2):
            file.truncate(size)
            file.write((b"++",))
        other = file.duplicate()
        file.close()
        assert other.read(0, 100) == b"01++"
        other.close()

    def rename(files, folder):
        file = files.open(f"{folder}/a")
        files.rename(f"{folder}/a", f"{folder}/b")
        file.write((b"behind",))
        file.close()

    def remove(files, folder):
        files.remove(f"{folder}/a")
        files.remove(f"{folder}/absent")
        assert not files.exists(f"{folder}/a")
        with pytest.raises(FileNotFoundError):
            files.read_bytes(f"{folder}/a")
        file = files.open(f"{folder}/a")
        assert file.size() == 0
        file.close()

    def create(files, folder):
        files.open(f"{folder}/c").close()
        files.rename(f"{folder}/c", f"{folder}/d")
        files.flush_directory(str(folder))
        assert files.exists(f"{folder}/d")

    return [append, truncate, rename, remove, create]


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.__name__)
def test_overlay_shows_what_the_disk_would(folder, tmp_path, step):
    copy = shutil.copytree(folder, tmp_path / "copy")
    before, overlay = state_of(folder), Overlay()
    step(overlay, folder)
    step(LocalFileSystem(), copy)
    assert content(overlay, folder) == content(LocalFileSystem(), copy)
    assert state_of(folder) == before


def torn(directory):
    with (directory / LAST).open("ab") as log:
        log.write(b"\0" * 9)


def rotten(directory):
    flip(directory / LAST)
    (directory / "segment-bookmark").unlink(missing_ok=True)


def without_indexes(directory):
    for path in directory.glob("*index"):
        path.unlink()


def interrupted_swap(directory):
    first = directory / f"{0:020d}.log"
    shutil.copy(first, f"{first}.swap")


@pytest.mark.parametrize("damage", [lambda _: None, torn, rotten, without_indexes, interrupted_swap])
@pytest.mark.parametrize("is_accepted", [False, True])
def test_log_is_opened_on_an_overlay_as_on_the_disk(killed_dir, tmp_path, damage, is_accepted):
    directory = killed_dir / ORDERS
    damage(directory)
    copy = shutil.copytree(directory, tmp_path / "copy" / "orders-0")
    before, overlay = state_of(directory), Overlay()
    for files, where in ((overlay, directory), (LocalFileSystem(), copy)):
        open_and_leave(files, str(where), is_accepted=is_accepted)
    assert content(overlay, directory) == content(LocalFileSystem(), copy)
    assert state_of(directory) == before


def open_and_leave(files, directory, *, is_accepted):
    try:
        log = PartitionLog.open(files, directory, LogConfig(), now_ms=NOW_MS)
    except LossNotAccepted as error:
        if is_accepted:
            accept_loss(files, directory, error.offset)
            open_and_leave(files, directory, is_accepted=False)
        return
    except LogDamaged:
        return
    for segment in log.segments:
        segment.close()


def test_disk_that_may_only_be_read_will_do(data_dir):
    """Root may write whatever the rights of a file say, so this looks at how the files are opened."""
    opened = []
    original = os.open

    def noted(path, flags, *others, **named):
        opened.append((path, flags))
        return original(path, flags, *others, **named)

    os.open = noted
    try:
        log = PartitionLog.open(Overlay(), str(data_dir / ORDERS), LogConfig(), now_ms=NOW_MS)
        for segment in log.segments:
            segment.close()
    finally:
        os.open = original
    assert len(opened) >= 4
    assert all(flags & os.O_ACCMODE == os.O_RDONLY for _, flags in opened)
