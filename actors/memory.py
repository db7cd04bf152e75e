"""How a process that serves others keeps its memory."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)

# The parameters of glibc's mallopt, and what we set them to, in bytes.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = {
    _M_MMAP_THRESHOLD: 32 * 1024 * 1024,
    _M_TRIM_THRESHOLD: 64 * 1024 * 1024,
    _M_TOP_PAD: 16 * 1024 * 1024,
}


def collect_garbage_rarely() -> None:
    """Spare what lives as long as the process, and look for cycles less often: messages make none.

    A node with a hundred thousand transactions would otherwise be walked over again and again, and so would a load of
    a thousand producers.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def keep_freed_memory() -> None:
    """Keep memory that is freed for the next read, instead of giving it back and having it zeroed again.

    Fetches read a megabyte at a time: with glibc's defaults page faults were nearly half of what they cost. Where the C
    library is another one, its own ways stay.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, size_bytes in _KEPT_BYTES.items():
            mallopt(parameter, size_bytes)
