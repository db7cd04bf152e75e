"""From ranges of offsets to the tasks that read them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from eagleray.pipelines.connection import Whereabouts
from eagleray.pipelines.offsets import OffsetRange
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.source.reading import RangesToRead
from eagleray.pipelines.splitting import gather, split

ENOUGH_OFFSETS: Final = 4096
"""A task that reads fewer takes small partitions together."""

_log = logging.getLogger(__name__)


def tasks_for(ranges: Iterable[OffsetRange], options: SourceOptions, where: Whereabouts) -> list[RangesToRead]:
    """Return the tasks that read these ranges."""
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    # Who says how many tasks there are to be, or how small, gets what he says.
    is_free = options.min_partitions is None and options.max_records_per_partition is None
    return [
        RangesToRead(
            group,
            where,
            isolation=options.isolation,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for group in gather(pieces, ENOUGH_OFFSETS if is_free else 0)
    ]


def warn(warnings: Iterable[str]) -> None:
    """Say what has to be said about offsets."""
    for warning in warnings:
        _log.warning("%s", warning)
