"""The progress of one follower, as its leader knows it."""

from __future__ import annotations

from typing import Final

from eagleray.broker.replication.divergence import Agreement
from eagleray.broker.replication.events import NO_LEADER_EPOCH, NO_OFFSET

NOT_IN_FLIGHT: Final = -1


class FollowerProgress:
    """How far one incarnation of a follower has come at this leader epoch, and the one push that is in flight to it.

    Owns: up to where the follower's log is known to agree (`agreed_offset`, which never falls), its acknowledged log
    start offset, where the next push begins, and when the follower last had everything that the leader had. A follower
    that registers anew may have lost what it acknowledged, so another incarnation begins with nothing.
    """

    __slots__ = (
        "acknowledged_start_offset",
        "agreed_offset",
        "begins_anew",
        "caught_up_ms",
        "end_when_sent",
        "in_flight_id",
        "incarnation",
        "next_offset",
        "previous_epoch",
        "sent_ms",
        "told_high_watermark",
        "told_start_offset",
    )

    def __init__(self, incarnation: int, leader_end_offset: int, now_ms: int) -> None:
        """Begin by asking whether the follower's log agrees up to the leader's end."""
        self.incarnation = incarnation
        self.acknowledged_start_offset = NO_OFFSET
        self.agreed_offset = NO_OFFSET
        self.next_offset = leader_end_offset
        self.previous_epoch = NO_LEADER_EPOCH
        self.begins_anew = False
        self.caught_up_ms = now_ms
        self.in_flight_id = NOT_IN_FLIGHT
        self.sent_ms = now_ms
        self.end_when_sent = leader_end_offset
        self.told_high_watermark = NO_OFFSET
        self.told_start_offset = NO_OFFSET

    def sent(self, push_id: int, end_offset: int, high_watermark: int, start_offset: int, now_ms: int) -> None:
        """Note the push that is in flight, and the leader's offsets when it was sent."""
        self.in_flight_id = push_id
        self.sent_ms = now_ms
        self.end_when_sent = end_offset
        self.told_high_watermark, self.told_start_offset = high_watermark, start_offset

    def landed(self, push_id: int) -> bool:
        """Note that a push was answered; False where it was not the one in flight."""
        if push_id != self.in_flight_id:
            return False
        self.in_flight_id = NOT_IN_FLIGHT
        return True

    def has_start(self, end_offset: int) -> None:
        """Note that the follower has applied the offsets of the push that it answered, as far as the logs agree."""
        start_offset = min(self.told_start_offset, end_offset)
        self.acknowledged_start_offset = max(self.acknowledged_start_offset, start_offset)

    def lost(self) -> None:
        """Give up the push in flight, and the offsets that it carried."""
        self.in_flight_id = NOT_IN_FLIGHT
        self.told_high_watermark = self.told_start_offset = NO_OFFSET

    def agrees(self, end_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Note that the follower's log agrees up to an offset."""
        self.agreed_offset = max(self.agreed_offset, end_offset)
        self.next_offset, self.previous_epoch = self.agreed_offset, NO_LEADER_EPOCH
        self.begins_anew = False
        if self.agreed_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self.agreed_offset >= self.end_when_sent:
            self.caught_up_ms = max(self.caught_up_ms, self.sent_ms)

    def differs(self, agreement: Agreement | None, start_offset: int, *, is_empty: bool) -> None:
        """Push from where the logs agree; the follower begins anew where they share nothing to push from.

        A point that was tried and refused would be refused again; then the follower begins anew as well.
        """
        was_tried = agreement == (self.next_offset, self.previous_epoch)
        if agreement is None or (was_tried and not is_empty):
            agreement, is_empty = Agreement(start_offset), True
        self.begins_anew = is_empty
        self.next_offset, self.previous_epoch = agreement

    def lags(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has lacked something for too long; one that has everything now does not lag."""
        return self.agreed_offset < leader_end_offset and now_ms - self.caught_up_ms > max_lag_ms

    def is_owed(self, leader_end_offset: int, high_watermark: int, start_offset: int) -> bool:
        """Whether there is something that the follower has not been told."""
        return (
            self.agreed_offset < leader_end_offset
            or self.told_high_watermark < high_watermark
            or self.told_start_offset < start_offset
        )
