"""A log that nothing fills by going wrong again and again, such as a peer that connects anew."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_log = logging.getLogger(__name__)

_QUIET_S: Final = 60.0
_REMEMBERED: Final = 1024


class ThrottledLog:
    """Logs what is wrong with a host, or with this node, and then for a minute nothing of the same kind about it."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._said_at_s: OrderedDict[tuple[str, str], float] = OrderedDict()

    def log_closing(self, host: str, port: int, kind: str, sentence: str) -> None:
        """Log what a peer looks like; `kind` tells one entry from another."""
        if self._is_new(host, kind):
            _log.warning("closing the connection with %s:%s: %s", host, port, sentence)

    def log_refusal(self, host: str, kind: str, sentence: str) -> None:
        """Log why a request was refused whose response has no room for words."""
        if self._is_new(host, kind):
            _log.warning("refusing a request of %s: %s", host, sentence)

    def report_failure(self, host: str, request: str, error: BaseException) -> None:
        """Log that a request could not be handled, and why: that is a bug of ours, whatever the peer sent."""
        if self._is_new(host, f"{request} {type(error).__name__}"):
            _log.error("%s of %s failed", request, host, exc_info=error)

    def report(self, sentence: str) -> None:
        """Log what is wrong with this node, whichever client or peer has caused it."""
        if self._is_new("", sentence):
            _log.error("%s", sentence)

    def _is_new(self, host: str, kind: str) -> bool:
        now_s = self._clock_s()
        said_at_s = self._said_at_s.get((host, kind))
        if said_at_s is not None and now_s - said_at_s < _QUIET_S:
            return False
        self._said_at_s[host, kind] = now_s
        self._said_at_s.move_to_end((host, kind))
        if len(self._said_at_s) > _REMEMBERED:
            self._said_at_s.popitem(last=False)
        return True
