"""What takes a file system long is done beside those who wait for nothing of it."""

import os

from eagleray.actors.storage.disk import LocalDisk


def wait_for_threads(disk):
    disk._remover.shutdown()


def test_file_that_is_discarded_is_closed(tmp_path):
    disk = LocalDisk()
    file = disk.open(str(tmp_path / "file"))
    descriptor = file._descriptor
    disk.remove(str(tmp_path / "file"))
    disk.discard(file)
    wait_for_threads(disk)
    assert not os.path.exists(f"/proc/self/fd/{descriptor}")


def test_directory_goes_with_all_that_is_in_it(tmp_path):
    (tmp_path / "large/inner").mkdir(parents=True)
    (tmp_path / "large/inner/file").write_bytes(b"records")
    disk = LocalDisk()
    disk.begin_to_remove_tree(str(tmp_path / "large"))
    wait_for_threads(disk)
    assert os.listdir(tmp_path) == []
