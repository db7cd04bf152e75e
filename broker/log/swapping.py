"""Putting a compacted segment in the place of those it was made from, so that a crash at any point is repaired.

1. The compacted segment is written and flushed under `.cleaned` names; a crash leaves files that opening sweeps up.
2. Its indexes are renamed to `.swap`, and the snapshots below its end are removed: they may tell of a transaction
   that is open, whose marker the compaction has removed with the rest of it. Then its log is
   renamed to `.swap`, which decides: from here on the swap will happen.
3. The segments that it replaces are removed, last first, but for the one with the same base offset.
4. Indexes, then the log, are renamed to their final names, which replaces that last one.

The directory is flushed between the steps, and before the log's rename. Opening a directory that has a `.log.swap`
goes on at step 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import names
from eagleray.broker.log.recovery import remove_snapshots, snapshot_offsets
from eagleray.broker.log.segment import Segment

_SUFFIXES = (names.LOG_SUFFIX, *names.INDEX_FILE_SUFFIXES)
_SWAPPED_LOG_SUFFIX = names.LOG_SUFFIX + names.SWAP_SUFFIX


def remove_cleaned(file_system: FileSystem, directory: str, base_offset: int) -> None:
    """Remove what a compaction that was given up may have left under `.cleaned` names."""
    for suffix in _SUFFIXES:
        file_system.remove(names.segment_file(directory, base_offset, suffix) + names.CLEANED_SUFFIX)


def swap_in(
    file_system: FileSystem, directory: str, replaced: Sequence[Segment], *, end_offset: int, index_interval_bytes: int
) -> Segment:
    """Take steps 2 to 4 for a compacted segment whose closed and flushed files are under `.cleaned` names.

    `end_offset` is where the segments that it replaces end; they are still open when this returns. Where it raises,
    only `complete_swaps` can tell which of them are left.
    """
    base_offset = replaced[0].base_offset
    _decide_swap(file_system, directory, base_offset, end_offset)
    _finish_swap(file_system, directory, base_offset, [segment.base_offset for segment in replaced])
    compacted = Segment(
        file_system,
        directory,
        base_offset,
        index_interval_bytes=index_interval_bytes,
        created_ms=replaced[0].created_ms,
    )
    if not compacted.load_indexes():
        raise OSError(f"the disk has not kept the indexes of the compacted segment {base_offset}")
    return compacted


def complete_swaps(file_system: FileSystem, directory: str) -> None:
    """Finish the swaps that a crash interrupted after they were decided, and undo those that were not."""
    found = file_system.list_directory(directory)
    for name in found:
        if name.endswith(_SWAPPED_LOG_SUFFIX):
            _complete_swap(file_system, directory, name)
    for name in file_system.list_directory(directory):
        if name.endswith(names.SWAP_SUFFIX):
            file_system.remove(f"{directory}/{name}")


def _complete_swap(file_system: FileSystem, directory: str, name: str) -> None:
    base_offset = names.base_offset_of(name)
    if base_offset is None:
        return
    end_offset = _end_of_swap(file_system, directory, base_offset)
    # A compacted segment ends where the last of those that it replaces ended, because its last batch always stays.
    replaced = [
        offset
        for offset in map(names.base_offset_of, file_system.list_directory(directory))
        if offset is not None and base_offset <= offset < max(end_offset, base_offset + 1)
    ]
    _finish_swap(file_system, directory, base_offset, sorted(set(replaced)))


def _end_of_swap(file_system: FileSystem, directory: str, base_offset: int) -> int:
    segment = Segment(
        file_system,
        directory,
        base_offset,
        index_interval_bytes=0,
        created_ms=0,
        name_ending=names.SWAP_SUFFIX,
    )
    try:
        ends = [header.next_offset for _, header in segment.headers()]
    finally:
        segment.close()
    return ends[-1] if ends else base_offset


def _decide_swap(file_system: FileSystem, directory: str, base_offset: int, end_offset: int) -> None:
    for suffix in names.INDEX_FILE_SUFFIXES:
        path = names.segment_file(directory, base_offset, suffix)
        _rename_if_there(file_system, path + names.CLEANED_SUFFIX, path + names.SWAP_SUFFIX)
    later = [offset for offset in snapshot_offsets(file_system, directory) if offset >= end_offset]
    remove_snapshots(file_system, directory, kept=later)
    file_system.flush_directory(directory)
    path = names.segment_file(directory, base_offset, names.LOG_SUFFIX)
    file_system.rename(path + names.CLEANED_SUFFIX, path + names.SWAP_SUFFIX)
    file_system.flush_directory(directory)


def _finish_swap(file_system: FileSystem, directory: str, base_offset: int, replaced: Sequence[int]) -> None:
    for old_offset in sorted(replaced, reverse=True):
        suffixes = names.INDEX_FILE_SUFFIXES if old_offset == base_offset else _SUFFIXES
        for suffix in suffixes:
            file_system.remove(names.segment_file(directory, old_offset, suffix))
    file_system.flush_directory(directory)
    for suffix in reversed(_SUFFIXES):
        path = names.segment_file(directory, base_offset, suffix)
        _rename_if_there(file_system, path + names.SWAP_SUFFIX, path)
    file_system.flush_directory(directory)


def _rename_if_there(file_system: FileSystem, source: str, target: str) -> None:
    """Rename an index, which may be missing: there is no transaction index where none was aborted."""
    if file_system.exists(source):
        file_system.rename(source, target)
