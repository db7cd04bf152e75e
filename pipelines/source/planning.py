"""From ranges of offsets to the tasks that read them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from eagleray.pipelines.connection import Whereabouts
from eagleray.pipelines.offsets import OffsetRange
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.source.reading import RangeToRead
from eagleray.pipelines.splitting import split

_log = logging.getLogger(__name__)


def tasks_for(ranges: Iterable[OffsetRange], options: SourceOptions, where: Whereabouts) -> list[RangeToRead]:
    """Return the tasks that read these ranges."""
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    return [
        RangeToRead(
            piece,
            where,
            isolation=options.isolation,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for piece in pieces
    ]


def warn(warnings: Iterable[str]) -> None:
    """Say what has to be said about offsets."""
    for warning in warnings:
        _log.warning("%s", warning)
