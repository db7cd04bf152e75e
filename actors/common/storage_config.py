"""Settings of a node's disk, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.settings import INT64_MAX, NOT_IN_KAFKA, Setting, check_ranges


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How much room a node keeps, and what becomes of files that are no longer needed."""

    file_delete_delay_ms: Annotated[
        int,
        Setting(
            "How long the files of a topic that was deleted, or of a replica that has moved away, stay on the disk "
            "under a name that ends in `-delete`, before they are removed for good.",
            most=INT64_MAX,
        ),
    ] = 60_000
    storage_low_free_bytes: Annotated[
        int,
        Setting(
            "With less than this free on the file system of its data directory, a node warns, and applies retention at "
            "once; on a small disk with less than a fifth of it.",
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1024**3
    storage_min_free_bytes: Annotated[
        int,
        Setting(
            "With less than this free on the file system of its data directory, a node refuses what clients write, "
            "with errors after which they try again, until there is a quarter more; on a small disk with less than a "
            "twentieth of it. 0 for never.",
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 64 * 1024**2
    storage_reserve_bytes: Annotated[
        int,
        Setting(
            "The size of a file that each node keeps in its data directory and gives up when the disk is full, so "
            "that topics can still be deleted and the node can start; on a small disk at most a hundredth of it. 0 "
            "for none.",
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 8 * 1024**2
    storage_flush_timeout_ms: Annotated[
        int,
        Setting(
            "When a flush in the background has taken so long, the disk counts as stuck, and the node refuses what "
            "clients write until the flush returns. When any other call of the disk has taken so long, during which a "
            "node can do nothing else, the process of the node ends itself, and is started again.",
            least=1,
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 30_000

    def __post_init__(self) -> None:
        check_ranges(self)
