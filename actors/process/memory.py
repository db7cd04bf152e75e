"""The memory of a long-lived process: garbage collection and malloc."""

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

    Otherwise the collector would walk over a node's hundred thousand transactions again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def keep_freed_memory() -> None:
    """Keep freed memory for the next read, instead of returning it and having it zeroed again.

    Fetches read a megabyte at a time: with glibc's defaults page faults were nearly half of their cost. Other C
    libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, size_bytes in _KEPT_BYTES.items():
            mallopt(parameter, size_bytes)
