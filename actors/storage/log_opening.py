"""One opening of a partition's log, which may be done off the loop."""

from __future__ import annotations

import logging
from typing import NamedTuple

from eagleray.actors.storage.disk import Disk, Lock
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig, PartitionLog, Surroundings
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.torn_or_rotten import Verdict

_log = logging.getLogger(__name__)


class LogOpening(NamedTuple):
    """Everything that it takes to open a log, whose lock is held."""

    partition: TopicPartition
    disk: Disk
    directory: str
    config: LogConfig
    surroundings: Surroundings
    now_ms: int
    lock: Lock

    def run(self) -> PartitionLog:
        """Open the log, in any thread; where that fails the lock is given back, and what was raised is raised."""
        try:
            return PartitionLog.open(
                self.disk, self.directory, self.config, now_ms=self.now_ms, surroundings=self.surroundings
            )
        except BaseException:
            self.lock.release()
            raise

    def give_up(self, log: PartitionLog) -> None:
        """Close the log that was opened, for which there is no use any more."""
        try:
            log.close()
        finally:
            self.lock.release()


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
