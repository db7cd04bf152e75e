"""The settings of clients as keywords, for type checkers: `cluster.producer(lingerms=5)` is wrong before it runs.

`ProducerConfig` and `ConsumerConfig` say what a setting means, and check its value when a client is made;
tests/unit/client/test_settings.py holds that both know the same names and the same types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypedDict

Acks = Literal["all", -1, 0, 1]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
AutoOffsetReset = Literal["earliest", "latest", "none"]
RemoteAssignor = Literal["uniform", "range", None]  # noqa: PYI061 - one choice of several, and listed as such
LayoutName = Literal["separate", "colocated"]
LaneName = Literal["direct", "ray"]

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""Takes topic, key, value and the number of partitions, and returns a partition."""


class ProducerSettings(TypedDict, total=False):
    """What `cluster.producer` and `cluster.join` take as keywords."""

    transactional_id: str | None
    enable_idempotence: bool
    acks: Acks
    linger_ms: int
    batch_size: int
    compression_type: CompressionType
    max_in_flight_requests_per_connection: int
    max_request_size: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    buffer_memory: int
    max_block_ms: int
    partitioner: Partitioner | None


class ConsumerSettings(TypedDict, total=False):
    """What `cluster.consumer` takes as keywords."""

    group: str | None
    """Short for `group_id`."""

    group_id: str | None
    group_instance_id: str | None
    group_remote_assignor: RemoteAssignor
    max_poll_interval_ms: int
    isolation: IsolationLevel
    """Short for `isolation_level`."""

    isolation_level: IsolationLevel
    auto_offset_reset: AutoOffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class StartSettings(TypedDict, total=False):
    """What `eagleray.aio.start` takes as keywords, as `eagleray.start` does."""

    layout: LayoutName
    leaders: int | None
    coordinators: int | None
    group_coordinators: int
    lane: LaneName
    host: str | None
    port: int
    machines: int | Literal["all"] | None
