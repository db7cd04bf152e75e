"""Files of a data directory as text: which there are, and how each is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from eagleray.broker.log import names
from eagleray.broker.metadata.directories import partition_of
from eagleray.offline.dump_log import DUMPS, Wanted, dump_log
from eagleray.offline.dump_small_files import small_file_dump
from eagleray.offline.kafka_json import decoder_for
from eagleray.offline.overlay import Overlay

_LOGS: Final = re.compile(r"\d{20}\.(log|torn|cut)(\.\d+)?")


def files_at(path: str) -> list[str]:
    """Return a file, or all files in a directory and below, in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(folder, name) for folder, _, names_in in os.walk(path) for name in names_in]
    return sorted(found)


def dump_file(path: str, wanted: Wanted) -> Iterator[str] | None:
    """Yield the lines of a file; None where it is none that is known. Nothing is changed.

    Without a decoder, the records of internal topics are decoded by the name of their directory.
    """
    files, (folder, _, name) = Overlay(), os.path.abspath(path).rpartition("/")
    if _LOGS.fullmatch(name):
        decoder = wanted.decoder or decoder_for(partition_of(folder.rpartition("/")[2]))
        return dump_log(files, path, replace(wanted, decoder=decoder))
    by_suffix = DUMPS.get(os.path.splitext(name)[1]) if names.base_offset_of(name) is not None else None
    dump = by_suffix or small_file_dump(name)
    return None if dump is None else dump(files, os.path.abspath(path))
