"""Those who wait until what they wrote is replicated."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from eagleray.broker.replication.events import Replicated
from eagleray.protocol.errors import ErrorCode


class Waiting:
    """The requests of one leader that wait for the high watermark, each for an offset and until a time.

    Owns: who waits. Each is answered once. An error leaves the outcome open: the records may be replicated yet.
    """

    def __init__(self) -> None:
        self._by_offset: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._by_offset)

    def add(self, request_id: int, end_offset: int, deadline_ms: int) -> None:
        """Let a request wait until everything before `end_offset` is replicated."""
        heappush(self._by_offset, (end_offset, request_id, deadline_ms))

    @property
    def least_offset(self) -> int | None:
        """The offset that somebody waits for, and nobody for a smaller one."""
        return self._by_offset[0][0] if self._by_offset else None

    def reached(self, high_watermark: int) -> list[Replicated]:
        """Answer those whose records are replicated."""
        answers: list[Replicated] = []
        while self._by_offset and self._by_offset[0][0] <= high_watermark:
            answers.append(Replicated(heappop(self._by_offset)[1], ErrorCode.NONE))
        return answers

    def expire(self, now_ms: int) -> list[Replicated]:
        """Answer those whose time is up."""
        overdue = [waiting for waiting in self._by_offset if waiting[2] <= now_ms]
        if overdue:
            self._by_offset = [waiting for waiting in self._by_offset if waiting[2] > now_ms]
            heapify(self._by_offset)
        return [Replicated(request_id, ErrorCode.REQUEST_TIMED_OUT) for _, request_id, _ in overdue]

    def end(self, error_code: ErrorCode) -> list[Replicated]:
        """Answer everybody that it is unknown whether their records will be replicated."""
        waiting, self._by_offset = sorted(self._by_offset), []
        return [Replicated(request_id, error_code) for _, request_id, _ in waiting]
