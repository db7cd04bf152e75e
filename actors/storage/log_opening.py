"""One opening of a partition's log, which may be done off the loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from eagleray.actors.storage.disk import Disk, Lock
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig, LogOffline, PartitionLog, Surroundings
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.torn_or_rotten import Verdict

_log = logging.getLogger(__name__)


class LogOpening:
    """Everything that it takes to open a log.

    Owns: the lock of the log's directory, until the opening fails, its log is adopted, or it is given up; and the log,
    as soon as that is open.
    """

    def __init__(
        self,
        partition: TopicPartition,
        disk: Disk,
        directory: str,
        config: LogConfig,
        surroundings: Surroundings,
        *,
        claim: Callable[[], None],
        now_ms: int,
        lock: Lock,
    ) -> None:
        self.partition = partition
        self.surroundings = surroundings
        self.lock = lock
        self._disk = disk
        self._directory = directory
        self._config = config
        self._claim = claim
        self._now_ms = now_ms
        self._log: PartitionLog | None = None

    def run(self) -> PartitionLog:
        """Open the log, in any thread; where that fails the lock is given back, and what was raised is raised.

        Raises StrayLog where the directory is not that of this partition, and what the opening of a log raises.
        """
        try:
            self._claim()
            self._log = PartitionLog.open(
                self._disk, self._directory, self._config, now_ms=self._now_ms, surroundings=self.surroundings
            )
        except BaseException:
            self.lock.release()
            raise
        # At once: what is cut already would not be found again by another process.
        tell_of_end(self.partition, self._log.recovery)
        return self._log

    def give_up(self) -> None:
        """Close the log, if it was opened, and give the lock back: there is no use for the log any more."""
        try:
            if self._log is not None:
                self._log.close()
        except LogOffline as error:
            _log.warning("%s", error)
        finally:
            self.lock.release()


def tell_of_end(partition: TopicPartition, recovery: Recovery) -> None:
    """Say what an opening has found at the end of a log, if there is something to say."""
    if recovery.verdict is not None:
        tell_of_cut(partition, recovery)
    if recovery.uncertain_from is not None:
        _log.warning(
            "%s was not closed before the machine booted, and no other replica has it: it ends at offset %s, and what "
            "was acknowledged behind that since its last flush (`flush.ms`) is lost, if there was any",
            partition,
            recovery.uncertain_from,
        )


def tell_of_cut(partition: TopicPartition, recovery: Recovery) -> None:
    """Say what an opening has cut off: an error, unless it was a torn write that was never acknowledged."""
    is_loss = recovery.verdict is not Verdict.CUT or recovery.known_end_offset > recovery.log_end_offset
    _log.log(
        logging.ERROR if is_loss else logging.WARNING,
        "%s ends at offset %s, and was known to go on to %s: %s; %s bytes and %s later segments cut off, kept as %s",
        partition,
        recovery.log_end_offset,
        recovery.known_end_offset,
        "the loss was accepted" if recovery.is_loss_accepted else recovery.verdict,
        recovery.cut_bytes,
        recovery.cut_segments,
        ", ".join(recovery.kept_files) or "nothing",
    )
