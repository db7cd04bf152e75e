"""Settings of a node's listener, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Final

import msgspec

_UNLIMITED: Final = 2**31 - 1
_MAY_BE_ZERO: Final = frozenset(
    {"max_incremental_fetch_session_cache_slots", "connection_requests_per_second", "auto_create_topics_enable"}
)


class ListenerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How many peers a node lets in, how much it takes from each, and what a request may do by the way."""

    connections_max_idle_ms: int = 10 * 60 * 1000
    """How long a connection may be silent while nothing of it is in flight."""

    max_connections: int = _UNLIMITED
    max_connections_per_ip: int = _UNLIMITED
    socket_request_max_bytes: int = 100 * 1024 * 1024
    socket_request_complete_ms: int = 30_000
    """How long the first byte of a request may be ahead of its last; large requests get more."""

    queued_max_requests: int = 500
    """How many requests of one connection may be in flight before it is read no further."""

    queued_max_request_bytes: int = 64 * 1024 * 1024
    """How many bytes the requests in flight of one connection may have before it is read no further."""

    connection_requests_per_second: int = 0
    """How many requests a second are taken from one connection, on average; 0 means any number."""

    max_incremental_fetch_session_cache_slots: int = 1000
    auto_create_topics_enable: bool = True
    """Whether a topic that a client asks the metadata of is created when there is none."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            least = 0 if name in _MAY_BE_ZERO else 1
            if getattr(self, name) < least:
                raise ValueError(f"{name} has to be {least} or more")
