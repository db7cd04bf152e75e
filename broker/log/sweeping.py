"""Cleaning up a partition's directory before its files are opened."""

from __future__ import annotations

from bisect import bisect_right

from eagleray.broker.filesystem import FileSystem, write_fully
from eagleray.broker.log import names

_COPY_BYTES = 4 * 1024 * 1024


def log_offsets(file_system: FileSystem, directory: str) -> list[int]:
    """Return the base offsets of the segments in a directory, ascending."""
    found = file_system.list_directory(directory)
    offsets = [names.base_offset_of(name) for name in found if name.endswith(names.LOG_SUFFIX)]
    return sorted(offset for offset in offsets if offset is not None)


def deleted_below(file_system: FileSystem, directory: str) -> int:
    """Return the offset below which all was deleted without room for a checkpoint that says so, or -1."""
    found = file_system.list_directory(directory)
    offsets = [names.base_offset_of(name) for name in found if name.endswith(names.DELETED_SUFFIX)]
    return max((offset for offset in offsets if offset is not None), default=-1)


def forget_deleted(file_system: FileSystem, directory: str) -> None:
    """Remove what says so, once a checkpoint does."""
    for name in file_system.list_directory(directory):
        if name.endswith(names.DELETED_SUFFIX):
            file_system.remove(f"{directory}/{name}")


def sweep(file_system: FileSystem, directory: str) -> None:
    """Remove what a crash left half made: temporary files and unfinished compactions."""
    for name in file_system.list_directory(directory):
        if name.endswith((names.TEMPORARY_SUFFIX, names.CLEANED_SUFFIX)):
            file_system.remove(f"{directory}/{name}")


def sweep_indexes(file_system: FileSystem, directory: str) -> None:
    """Remove indexes without a log."""
    present = set(log_offsets(file_system, directory))
    for name in file_system.list_directory(directory):
        if name.endswith(names.INDEX_FILE_SUFFIXES) and names.base_offset_of(name) not in present:
            file_system.remove(f"{directory}/{name}")


def remove_behind(file_system: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the segments behind one, the last first, so that a crash leaves no gap."""
    for behind in reversed(log_offsets(file_system, directory)):
        if behind > base_offset:
            file_system.remove(names.segment_file(directory, behind, names.LOG_SUFFIX))
            file_system.flush_directory(directory)


def write_again(file_system: FileSystem, directory: str, recovery_point: int) -> None:
    """Write every segment behind the recovery point anew, from the page cache, after a flush has failed.

    The kernel takes the pages that it could not write for written by now, so another flush of the same file would do
    nothing.
    """
    offsets = log_offsets(file_system, directory)
    first = max(bisect_right(offsets, recovery_point) - 1, 0)
    for base_offset in offsets[first:]:
        _copy_over(file_system, names.segment_file(directory, base_offset, names.LOG_SUFFIX))
    file_system.flush_directory(directory)


def _copy_over(file_system: FileSystem, path: str) -> None:
    temporary = path + names.TEMPORARY_SUFFIX
    source, target = file_system.open(path), file_system.open(temporary)
    try:
        position = 0
        while chunk := source.read(position, _COPY_BYTES):
            write_fully(target, (chunk,), len(chunk))
            position += len(chunk)
        target.flush()
    finally:
        source.close()
        target.close()
    file_system.rename(temporary, path)
