"""How often Python looks for cycles of objects that nobody else holds."""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (50_000, 20, 100)


def collect_garbage_rarely() -> None:
    """Spare what lives as long as the process, and look for cycles less often: messages make none.

    A node with a hundred thousand transactions would otherwise be walked over again and again, and so would a load of
    a thousand producers.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
