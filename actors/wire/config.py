"""Settings of a node's listener, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.settings import INT32_MAX, NOT_IN_KAFKA, Setting, check_ranges


class ListenerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How many peers a node lets in, how much it takes from each, and what a request may do by the way."""

    connections_max_idle_ms: Annotated[
        int,
        Setting(
            "How long a connection may be silent, while no request of it is in flight, before the node closes it.",
            unit="ms",
            least=1,
        ),
    ] = 10 * 60 * 1000

    max_connections: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections that one node serves at the same time; further ones are closed.",
            least=1,
        ),
    ] = INT32_MAX

    max_connections_per_ip: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections from one address that one node serves at the same time; further "
            "ones are closed.",
            least=1,
        ),
    ] = INT32_MAX

    socket_request_max_bytes: Annotated[
        int,
        Setting(
            "The largest request that a node reads; a connection that announces a larger one is closed.",
            unit="bytes",
            least=1,
        ),
    ] = 100 * 1024 * 1024

    socket_request_complete_ms: Annotated[
        int,
        Setting(
            "How long after the first byte of a request its last byte may come before the node closes the connection; "
            "large requests get more time.",
            unit="ms",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 30_000

    queued_max_requests: Annotated[
        int,
        Setting(
            "The number of requests of one connection that may be in flight before the node reads no further from it. "
            "Kafka counts those of all connections of a broker together.",
            least=1,
        ),
    ] = 500

    queued_max_request_bytes: Annotated[
        int,
        Setting(
            "The size of all requests of one connection together that may be in flight before the node reads no "
            "further from it. Kafka counts those of all connections of a broker together, and has no limit by default.",
            unit="bytes",
            least=1,
            kafka="-1",
        ),
    ] = 64 * 1024 * 1024

    connection_requests_per_second: Annotated[
        int,
        Setting(
            "The number of requests that a node takes from one connection in a second, on average; 0 for any number.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 0

    max_incremental_fetch_session_cache_slots: Annotated[
        int,
        Setting(
            "The number of incremental fetch sessions that a node remembers. A consumer without one names all of its "
            "partitions in every fetch request.",
        ),
    ] = 1000

    auto_create_topics_enable: Annotated[
        bool,
        Setting("Whether a topic is created when a Kafka client asks for its metadata and there is none."),
    ] = True

    def __post_init__(self) -> None:
        check_ranges(self)
