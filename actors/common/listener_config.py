"""Settings of a node's listener, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.settings import INT32_MAX, INT64_MAX, NOT_IN_KAFKA, Setting, check_ranges


class ListenerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How many peers a node lets in, how much it takes from each, and what a request may do besides."""

    connections_max_idle_ms: Annotated[
        int,
        Setting(
            "How long a connection may be silent, while no request of it is in flight, before the node closes it. "
            "Those of nodes and handles may be silent for longer, as long as the machine at the other end answers.",
            unit="ms",
            least=1,
            reached="the connection is closed",
        ),
    ] = 10 * 60 * 1000

    max_connections: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections that one node serves at the same time; further ones are closed. "
            "Connections of nodes and handles count until they have shown the token of the cluster.",
            least=1,
            reached="the connection is closed",
        ),
    ] = INT32_MAX

    max_connections_per_ip: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections from one address that one node serves at the same time; further "
            "ones are closed.",
            least=1,
            reached="the connection is closed",
        ),
    ] = INT32_MAX

    max_connection_creation_rate: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections that one node lets in in a second, on average; further ones wait "
            "for their turn, and are closed where that is more than ten seconds away.",
            least=1,
            reached="the connection waits for up to ten seconds, or is closed",
        ),
    ] = INT32_MAX

    max_connection_creation_rate_per_ip: Annotated[
        int,
        Setting(
            "The number of Kafka clients' connections from one address that one node lets in in a second, on average; "
            "further ones wait for their turn, and are closed where that is more than ten seconds away. Kafka has it "
            "as the quota `connection_creation_rate` of an address.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="the connection waits for up to ten seconds, or is closed",
        ),
    ] = INT32_MAX

    socket_request_max_bytes: Annotated[
        int,
        Setting(
            "The largest request that a node reads; a connection that announces a larger one is closed.",
            unit="bytes",
            least=1,
            reached="the connection is closed",
        ),
    ] = 100 * 1024 * 1024

    socket_request_complete_ms: Annotated[
        int,
        Setting(
            "How long after the first byte of a request its last byte may come before the node closes the connection; "
            "large requests get more time. So long may a peer of the direct lane also take to say who it is.",
            unit="ms",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="the connection is closed",
        ),
    ] = 30_000

    queued_max_requests: Annotated[
        int,
        Setting(
            "The number of requests of one connection that may be in flight before the node reads no further from it. "
            "Kafka counts those of all connections of a broker together.",
            least=1,
            reached="the connection is not read until requests are answered",
        ),
    ] = 500

    queued_max_request_bytes: Annotated[
        int,
        Setting(
            "The size of all requests of Kafka clients together that may be in flight at one node before it reads no "
            "further from those connections that have more than their share of it. Requests of which a part has come "
            "may take half as much besides. Kafka has no limit by default.",
            unit="bytes",
            least=1,
            most=INT64_MAX,
            kafka="-1",
            reached="connections with more than their share are not read until there is room; where parts of requests "
            "take half as much, the connection is closed whose request has been coming for longest",
        ),
    ] = 512 * 1024 * 1024

    queued_max_request_bytes_per_connection: Annotated[
        int,
        Setting(
            "The size of all requests of one connection together that may be in flight before the node reads no "
            "further from it.",
            unit="bytes",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="the connection is not read until requests are answered",
        ),
    ] = 64 * 1024 * 1024

    queued_max_response_bytes: Annotated[
        int,
        Setting(
            "The size of all responses together that wait at one node until Kafka clients read them, or until earlier "
            "requests of their connection are answered.",
            unit="bytes",
            least=1,
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
            reached="the connection is closed whose client has not read for longest",
        ),
    ] = 512 * 1024 * 1024

    connection_requests_per_second: Annotated[
        int,
        Setting(
            "The number of requests that a node takes from one connection in a second, on average; 0 for any number.",
            kafka=NOT_IN_KAFKA,
            reached="the connection is not read for as long as it takes",
        ),
    ] = 0

    max_incremental_fetch_session_cache_slots: Annotated[
        int,
        Setting(
            "The number of incremental fetch sessions that a node remembers. A consumer without one names all of its "
            "partitions in every fetch request.",
            reached="the consumer gets no session, and names its partitions in each request",
        ),
    ] = 1000

    max_incremental_fetch_session_cache_bytes: Annotated[
        int,
        Setting(
            "The memory that all incremental fetch sessions of a node together may take, by an estimate from the "
            "number of their partitions and the names of these.",
            unit="bytes",
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
            reached="the consumer gets no session, or loses the one that grows, and names its partitions in each "
            "request",
        ),
    ] = 256 * 1024 * 1024

    max_delayed_fetches: Annotated[
        int,
        Setting(
            "The number of fetch requests of Kafka clients that may wait for records at one node at the same time.",
            kafka=NOT_IN_KAFKA,
            reached="a fetch is answered at once with what there is, and its client told to wait for as long as it "
            "would have waited here",
        ),
    ] = 50_000

    auto_create_topics_enable: Annotated[
        bool,
        Setting("Whether a topic is created when a Kafka client asks for its metadata and there is none."),
    ] = True

    transaction_two_phase_commit_enable: Annotated[
        bool,
        Setting(
            "Whether Kafka's clients may take part in a two-phase commit (KIP-939), with InitProducerId of version 6, "
            "which is served only then. Their transactions have no timeout. Handles may at any time."
        ),
    ] = False

    def __post_init__(self) -> None:
        check_ranges(self)
