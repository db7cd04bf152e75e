"""How many files a node may have open: each segment of an open log is one, and each connection."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress
from typing import Final

_log = logging.getLogger(__name__)

FEW: Final = 10_000
"""Kafka's documentation asks for 100,000; a tenth of that is enough for a few thousand partitions."""


def raise_limit() -> int:
    """Have as many files open as the system allows this process, and warn where these are few; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft != resource.RLIM_INFINITY and soft < FEW:
        _log.warning("this process may have only %s files open; raise the limit (ulimit -Hn, LimitNOFILE)", soft)
    return soft
