"""One driver for every coordinator on the coordinator runtime: it tells it what happens, and it is its log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import count
from typing import Any

from eagleray.broker.runtime.coordinator_events import AppendFailed, AppendRecords, Committed, PartitionLoaded
from eagleray.broker.runtime.failures import ReloadPartition, RequestFailed
from eagleray.protocol.errors import ErrorCode


class RuntimeDriver(ABC):
    """Feeds a coordinator and performs its effects when told to, one at a time or until nothing is left to do.

    What it appends is in the log that it leads at once, as in a node; a test says when that is committed, that the log
    did not take it after all, or that it refuses beforehand. `appends` are in the log and not yet committed.
    """

    coordinator: Any
    tick_event: Any

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.refusal = ErrorCode.NONE
        """What the log says before anything is appended."""
        self.appends: deque[AppendRecords] = deque()
        self.replies: dict[int, Any] = {}
        self.failures: list[Exception] = []
        """Why requests have failed unexpectedly; a test that expects none sees that there is none."""
        self.reloads: deque[ReloadPartition] = deque()
        """The partitions whose state was thrown away, which wait for `reload`."""
        self._request_ids = count(1)

    # The log

    @abstractmethod
    def write(self, append: AppendRecords) -> None:
        """Append records to the log of their partition."""

    @abstractmethod
    def take_back(self, append: AppendRecords) -> None:
        """Cut off the last append to the log of a partition."""

    @abstractmethod
    def load(self, log_partition: int = 0) -> Any:
        """Say what the log alone comes to."""

    def commit_log(self, append: AppendRecords) -> None:  # noqa: B027 - not every log keeps count
        """Take note that the log is replicated up to an append."""

    def check_append(self, log_partition: int, epoch: int) -> ErrorCode:
        return self.refusal

    # Telling it something

    @abstractmethod
    def perform(self, effect: Any) -> None:
        """Take an effect that is neither an append nor an answer."""

    def send(self, *events: Any) -> list[Any]:
        """Tell it what happened in one turn."""
        effects = self.coordinator.handle_all(events, self.now_ms)
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert self.refusal is ErrorCode.NONE, "something changes that the log refuses"
                self.write(effect)
                self.appends.append(effect)
            elif isinstance(effect, RequestFailed):
                self.failures.append(effect.error)
            elif isinstance(effect, ReloadPartition):
                self.reloads.append(effect)
            elif hasattr(effect, "request_id"):
                assert effect.request_id not in self.replies, "a request is answered once"
                self.replies[effect.request_id] = effect
            else:
                self.perform(effect)
        return effects

    def next_request_id(self) -> int:
        return next(self._request_ids)

    def request(self, kind: type, *fields: object, **named: object) -> int:
        request_id = self.next_request_id()
        self.send(kind(request_id, *fields, **named))
        return request_id

    def tick(self, after_ms: int = 0) -> list[Any]:
        self.now_ms += after_ms
        due_ms = self.coordinator.next_due_ms
        effects = self.send(self.tick_event)
        assert not effects or due_ms <= self.now_ms, "what time makes necessary was said to be due"
        return effects

    # Doing what it asks for

    def commit_oldest(self) -> AppendRecords:
        """Let the oldest append be committed."""
        append = self.appends.popleft()
        self.commit_log(append)
        self.send(Committed(append.log_partition, append.coordinator_epoch, append.position))
        return append

    def lose(self) -> None:
        """Let the log fail to take what it was just given; what it has taken before is committed, and loaded again."""
        lost = self.appends.pop()
        self.take_back(lost)
        self.send(AppendFailed(lost.log_partition, lost.coordinator_epoch))
        for append in self.appends:
            self.commit_log(append)
        self.appends.clear()
        self.send(PartitionLoaded(lost.log_partition, lost.coordinator_epoch, self.load(lost.log_partition)))

    def reload(self) -> None:
        """Commit what is in the log, and load the partitions whose state was thrown away."""
        for append in self.appends:
            self.commit_log(append)
        self.appends.clear()
        while self.reloads:
            partition, epoch = self.reloads[0].log_partition, self.reloads[0].coordinator_epoch
            self.reloads.popleft()
            self.send(PartitionLoaded(partition, epoch, self.load(partition)))

    def answer_to(self, request_id: int) -> Any:
        """The answer to a request, which may have to wait for all that is appended."""
        while request_id not in self.replies and self.appends:
            self.commit_oldest()
        return self.replies[request_id]

    def error_of(self, request_id: int) -> ErrorCode:
        return self.replies[request_id].error_code
