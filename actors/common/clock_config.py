"""Settings of how far a node follows its wall clock."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.settings import INT64_MAX, NOT_IN_KAFKA, Setting, check_ranges

_HOUR_MS = 60 * 60 * 1000


class ClockConfig(msgspec.Struct, frozen=True, kw_only=True):
    """When the wall clock of a machine counts as having jumped, and for how long it is not followed then."""

    clock_max_jump_ms: Annotated[
        int,
        Setting(
            "By how much the wall clock of a machine may move against its steady clock within `clock.accept.after.ms`. "
            "Where it moves by more, a node keeps the time that it had, and nothing expires by the time of day: no "
            "records by `retention.ms`, no offsets, no transactional ids, no ids of deleted topics.",
            least=1_000,
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = _HOUR_MS
    clock_accept_after_ms: Annotated[
        int,
        Setting(
            "When a wall clock that has jumped has been there for so long, it is taken for right, and expiry goes on "
            "by it. `eagleray node accept-clock` has it taken for right at once.",
            least=1,
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 24 * _HOUR_MS

    def __post_init__(self) -> None:
        check_ranges(self)
