"""The operating system's disk, for tests that look at it in between."""

from eagleray.actors.storage.disk import LocalDisk


class DiskWithoutThreads(LocalDisk):
    """Has removed what it was to remove when it returns."""

    def begin_to_remove_tree(self, path: str) -> None:
        self.remove_tree(path)
