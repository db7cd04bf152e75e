"""What is done about a log in which the scan stopped too early: judged, and cut where that may be."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log.accepted_loss import accepted_offset, forget_accepted, how_to_accept
from eagleray.broker.log.bookmark import Bookmark, is_bookmark_damaged, read_bookmark, remove_bookmark
from eagleray.broker.log.checkpoint import Checkpoint, write_checkpoint
from eagleray.broker.log.cutting import Place, keep_cut, keep_torn
from eagleray.broker.log.errors import LogDamaged, LossNotAccepted
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.torn_or_rotten import ScanEnd, Verdict, judge
from eagleray.broker.log.valid_behind import has_valid_batch


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the node that opens a log knows of it from elsewhere."""

    others_in_sync: bool = False
    """Whether other replicas have all that was acknowledged."""

    is_counted_on: bool = False
    """Whether the controller still takes this replica for one of these: then nothing but a torn write is cut before it
    is told."""

    topic_id: bytes = b""
    """The id of the topic, which the checkpoint keeps a copy of; empty where the caller has none."""

    partition: int = -1
    """The number of the partition, which the checkpoint keeps as well; -1 where the caller does not say."""

    latest_epoch: int | None = None
    """The newest leader epoch that the partition has had, where that is known."""

    is_torn_possible: bool = True
    """Whether a process may have died in a write: not where this one has the log open."""


ALONE = Surroundings()
UNTORN = Surroundings(is_torn_possible=False)


class Stop(NamedTuple):
    """Where the log is not as it should be: in which of its segments, at which byte, and before which offset."""

    number: int
    position: int
    offset: int
    why: str


class Settling:
    """Settles what becomes of one log that is being opened.

    Owns nothing; it changes the files of the log, and its list of segments, only where something may be cut. Otherwise
    it raises LogDamaged, and nothing has changed.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        checkpoint: Checkpoint,
        *,
        surroundings: Surroundings,
        flushes_first: bool,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._surroundings = surroundings
        self._flushes_first = flushes_first
        self.checkpoint = checkpoint
        boot_id = file_system.boot_id()
        self.is_same_boot = bool(boot_id) and checkpoint.boot_id == boot_id
        """Whether the machine has not booted since the log was last open, so that its page cache has every byte."""

    @property
    def may_have_lost_end(self) -> bool:
        """Whether an end that was acknowledged may have gone with the power, which no other replica has.

        Where nothing is left of it there is nothing to cut, and nothing that says how far the log went.
        """
        was_open = bool(self.checkpoint.boot_id) and not self.checkpoint.survives_loss_of_power
        return was_open and not self.is_same_boot and not self._surroundings.others_in_sync

    def bookmark(self) -> Bookmark | None:
        """The bookmark, where it was written in this boot."""
        bookmark = read_bookmark(self._file_system, self._directory)
        is_of_this_boot = bookmark is not None and bookmark.boot_id == self._file_system.boot_id()
        return bookmark if is_of_this_boot else None

    def _has_damaged_bookmark(self) -> bool:
        # Bookmarks of an earlier boot are removed by the first opening in this one.
        return is_bookmark_damaged(self._file_system, self._directory)

    def known_end(self) -> int:
        """Up to where the log is known to have gone."""
        checkpoint = self.checkpoint
        known_end = max(checkpoint.recovery_point, checkpoint.high_watermark)
        if self.is_same_boot and not checkpoint.closed_cleanly:
            bookmark = self.bookmark()
            known_end = max(known_end, -1 if bookmark is None else bookmark.offset)
        return known_end

    def settle(self, stop: Stop, segments: list[Segment], report: Recovery, *, is_trusted: bool) -> None:
        """Cut the log where the scan stopped, if that may be. Where nothing was being written, nothing is torn."""
        end = self._end(stop, segments)
        if is_trusted:
            verdict = Verdict.COPY_ANEW if self._surroundings.others_in_sync else Verdict.OFFLINE
        else:
            verdict = judge(end)
        is_early = verdict is Verdict.CUT_AND_FOLLOW and self._surroundings.is_counted_on
        if not verdict.cuts or is_early or not self._surroundings.is_torn_possible:
            self._require_accepted(stop, segments[stop.number], verdict)
            report.is_loss_accepted = True
        report.verdict, report.log_end_offset = verdict, stop.offset
        report.known_end_offset = max(end.known_end, stop.offset)
        self._cut(stop, segments, report)

    def _end(self, stop: Stop, segments: list[Segment]) -> ScanEnd:
        checkpoint = self.checkpoint
        first, *later = segments[stop.number :]
        from_offset = max(stop.offset, checkpoint.log_start_offset)
        return ScanEnd(
            stop_offset=stop.offset,
            recovery_point=checkpoint.recovery_point,
            known_end=self.known_end(),
            log_start_offset=checkpoint.log_start_offset,
            is_same_boot=self.is_same_boot,
            is_in_last_segment=not later,
            has_valid_batch_behind=has_valid_batch(first, stop.position, from_offset)
            or any(has_valid_batch(segment, 0, from_offset) for segment in later),
            flushes_first=self._flushes_first,
            others_in_sync=self._surroundings.others_in_sync,
            is_known_end_certain=not (self.is_same_boot and self._has_damaged_bookmark()),
        )

    def _require_accepted(self, stop: Stop, segment: Segment, verdict: Verdict) -> None:
        """Raise LogDamaged, unless a person has accepted the loss of everything from the stop on."""
        is_offline = verdict is Verdict.OFFLINE and self._surroundings.is_torn_possible
        if is_offline and accepted_offset(self._file_system, self._directory) == stop.offset:
            return
        told = f"{self._directory}: segment {segment.base_offset} is damaged: {stop.why}"
        if is_offline:
            told += f"; nothing was changed; {how_to_accept(self._directory, stop.offset)}"
            raise LossNotAccepted(told, stop.offset)
        raise LogDamaged(told)

    def _cut(self, stop: Stop, segments: list[Segment], report: Recovery) -> None:
        """Cut the log at a stop, keeping all that lies behind."""
        file_system, directory = self._file_system, self._directory
        place = Place(segments[stop.number], stop.position, stop.offset)
        cut = segments[stop.number :]
        report.cut_bytes = sum(segment.size_bytes for segment in cut) - stop.position
        report.cut_segments = len(cut) - 1
        is_torn = report.verdict is Verdict.CUT and not report.cut_segments
        if not is_torn:
            self._note_loss(stop.offset)
            report.kept_files = tuple(keep_cut(file_system, directory, place, cut[1:]))
            del segments[stop.number + 1 :]
        elif report.cut_bytes:
            report.kept_files = (keep_torn(file_system, directory, place),)
        if stop.position < place.segment.size_bytes:
            place.segment.truncate(stop.position)
        if report.is_loss_accepted:
            forget_accepted(file_system, directory)

    def _note_loss(self, offset: int) -> None:
        """Write down, before anything is cut, that the log ends earlier than it did: the next opening must not miss
        what was lost.
        """
        noted = msgspec.structs.replace(
            self.checkpoint,
            recovery_point=min(self.checkpoint.recovery_point, offset),
            high_watermark=min(self.checkpoint.high_watermark, offset),
            cleaned_up_to=min(self.checkpoint.cleaned_up_to, offset),
            closed_cleanly=False,
            epochs=tuple(each for each in self.checkpoint.epochs if each[1] < offset),
        )
        remove_bookmark(self._file_system, self._directory)
        self.checkpoint = write_checkpoint(self._file_system, self._directory, noted)
