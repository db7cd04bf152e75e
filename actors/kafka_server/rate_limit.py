"""A limit of requests, or of new connections, per second, averaged over a second."""

from __future__ import annotations


class RateLimit:
    """An allowance that grows with time, up to what a second allows, and shrinks with each request or connection."""

    __slots__ = ("_allowance", "_at_s", "per_second")

    def __init__(self, per_second: int, now_s: float) -> None:
        """Allow so many requests a second; 0 means any number."""
        self.per_second = per_second
        self._allowance = float(per_second)
        self._at_s = now_s

    def spend(self, requests: int, now_s: float) -> float:
        """Count requests; return for how long no more of them should be read. A negative number takes back."""
        earned = (now_s - self._at_s) * self.per_second
        self._allowance = min(self._allowance + earned, self.per_second) - requests
        self._at_s = now_s
        return max(-self._allowance, 0.0) / self.per_second
