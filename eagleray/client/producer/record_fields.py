"""The parts of a record as applications give them, and as producers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypedDict

from eagleray.client.errors import EaglerayError, TopicNotFound
from eagleray.client.types import RecordMetadata, as_bytes
from eagleray.client.validation import topic_to_use
from eagleray.protocol.records import Headers

HeadersLike: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
OnDelivery: TypeAlias = Callable[[RecordMetadata | None, EaglerayError | None], None]


class SendOptions(TypedDict, total=False):
    """What `send` takes beside the topic and the value."""

    key: bytes | str | None
    partition: int | None
    timestamp_ms: int | None
    headers: HeadersLike
    on_delivery: OnDelivery | None


RECORD_OVERHEAD_BYTES: Final = 70
"""What a record is charged beside its key and value: its share of a batch, at the most."""

_LAST_TIMESTAMP: Final = (1 << 63) - 1


def as_headers(headers: HeadersLike) -> Headers:
    """Accept a mapping, or any pairs, in the place of headers."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    named = tuple((name, as_bytes(value)) for name, value in pairs)
    for name, _ in named:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is {name!r}; expected a str.")
        # Names that cannot be encoded are found here, and not while a batch is being built.
        name.encode("utf-8", "surrogateescape")
    return named


def headers_size(headers: Headers) -> int:
    """Return what headers take in the buffer."""
    return sum(len(name) + len(content or b"") + 4 for name, content in headers)


def check_topic(topic: object) -> None:
    """Raise TypeError or InvalidArgument for what no topic can be named, so that it is not waited for."""
    if not isinstance(topic, str):
        raise TypeError(f"the topic is {topic!r}; expected its name, a str.")
    topic_to_use(topic)


def check_partition(topic: str, partition: object) -> None:
    """Raise TypeError or TopicNotFound for what cannot be a partition, now or later."""
    if not isinstance(partition, int):
        raise TypeError(f"the partition is {partition!r}; expected its number, an int.")
    if partition < 0:
        raise TopicNotFound(f"topic {topic!r} has no partition {partition}.")


def check_timestamp(timestamp_ms: object) -> None:
    """Raise TypeError or ValueError for what cannot be the time of a record; -1 stands for none."""
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"timestamp_ms is {timestamp_ms!r}; expected an int, in milliseconds since 1970.")
    if not -1 <= timestamp_ms <= _LAST_TIMESTAMP:
        raise ValueError(f"timestamp_ms is {timestamp_ms}; expected 0 to 2^63 - 1, in milliseconds since 1970.")
