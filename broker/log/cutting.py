"""Cutting a log at an offset, so that nothing of what lies behind is gone.

The bytes of a torn last write go to `<offset>.torn`, of which the newest few are kept: nothing of them was ever
acknowledged. What may have been acknowledged stays: the rest of the segment as `<offset>.cut`, later segments under the
same ending in place of `.log`, with a number behind it where the name is taken. These go with their partition, or when
a person removes them. Kafka's tools and our own openings pass over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eagleray.broker.filesystem import FileSystem, write_fully
from eagleray.broker.log import names
from eagleray.broker.log.segment import Segment

TORN_KEPT = 8
"""How many torn ends of a log are kept: the newest."""

_COPY_BYTES = 4 * 1024 * 1024


class Place(NamedTuple):
    """Where a log is cut: at a byte of one of its segments, which is before an offset."""

    segment: Segment
    position: int
    offset: int


def keep_torn(file_system: FileSystem, directory: str, place: Place) -> str:
    """Copy what follows a place to a side file of torn bytes, and remove the oldest one."""
    name = _keep_rest(file_system, directory, place, names.TORN_SUFFIX)
    for older in _side_files(file_system, directory, names.TORN_SUFFIX)[:-TORN_KEPT]:
        if older != name:
            file_system.remove(f"{directory}/{older}")
    return name


def keep_cut(file_system: FileSystem, directory: str, place: Place, later: Sequence[Segment]) -> list[str]:
    """Keep everything behind a place; the segments that follow that of the place are segments no more.

    The last goes first, so that a crash leaves a log without a gap, which is then cut again.
    """
    kept = []
    for segment in reversed(later):
        segment.close()
        source = names.segment_file(directory, segment.base_offset, names.LOG_SUFFIX)
        kept.append(_free_name(file_system, directory, segment.base_offset, names.CUT_SUFFIX))
        file_system.rename(source, f"{directory}/{kept[-1]}")
        file_system.flush_directory(directory)
        segment.remove_index_files()
    if place.position < place.segment.size_bytes:
        kept.append(_keep_rest(file_system, directory, place, names.CUT_SUFFIX))
    return kept[::-1]


def kept_files(file_system: FileSystem, directory: str) -> list[str]:
    """The names of everything that was cut off and is still there."""
    return [
        *_side_files(file_system, directory, names.TORN_SUFFIX),
        *_side_files(file_system, directory, names.CUT_SUFFIX),
    ]


def _keep_rest(file_system: FileSystem, directory: str, place: Place, suffix: str) -> str:
    segment, position, offset = place
    name = _free_name(file_system, directory, offset, suffix)
    temporary = f"{directory}/{name}{names.TEMPORARY_SUFFIX}"
    file_system.remove(temporary)
    file = file_system.open(temporary)
    try:
        while position < segment.size_bytes:
            chunk = segment.read(position, _COPY_BYTES)
            write_fully(file, (chunk,), len(chunk))
            position += len(chunk)
        file.flush()
    finally:
        file.close()
    file_system.rename(temporary, f"{directory}/{name}")
    file_system.flush_directory(directory)
    return name


def _free_name(file_system: FileSystem, directory: str, offset: int, suffix: str) -> str:
    taken = set(file_system.list_directory(directory))
    name = f"{offset:020d}{suffix}"
    number = 1
    while name in taken:
        name, number = f"{offset:020d}{suffix}.{number}", number + 1
    return name


def _side_files(file_system: FileSystem, directory: str, suffix: str) -> list[str]:
    """The side files of one kind, by offset and then by age."""
    found = []
    for name in file_system.list_directory(directory):
        base_offset, rest = names.base_offset_of(name), name[20:]
        number = rest.removeprefix(suffix).removeprefix(".")
        if base_offset is not None and rest.startswith(suffix) and (not number or number.isdecimal()):
            found.append((base_offset, int(number or 0), name))
    return [name for *_, name in sorted(found)]
