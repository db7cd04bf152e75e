"""Settings of producers and consumers under Kafka's names, checked when they are made.

ProducerConfig.make({"transactional.id": "billing-1", "linger.ms": 5})
ProducerConfig.make(transactional_id="billing-1", linger_ms=5)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from eagleray.client.errors import InvalidConfig
from eagleray.client.partitioner import Partitioner

Milliseconds = Annotated[int, Meta(ge=0)]
PositiveMilliseconds = Annotated[int, Meta(ge=1)]
Bytes = Annotated[int, Meta(ge=1)]


class ConfigRow(msgspec.Struct, frozen=True):
    """One setting, as a line of a table."""

    key: str
    type: str
    default: str
    range: str
    meaning: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the two kinds of settings share: how they are made, checked and listed."""

    @classmethod
    def make(cls, settings: Mapping[str, Any] | None = None, **keywords: object) -> Self:
        """Make a config from Kafka's keys with dots, from keywords with underscores, or from both."""
        given: dict[str, object] = {}
        for key, value in {**(settings or {}), **keywords}.items():
            name = key.replace(".", "_")
            if name not in cls.__struct_fields__:
                raise InvalidConfig(cls._unknown(key))
            given[name] = value
        config = cls(**given)
        config._check()
        return config

    @classmethod
    def _unknown(cls, key: str) -> str:
        keys = [row.key for row in cls.table()]
        near = difflib.get_close_matches(key.replace("_", "."), keys, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else f", which are {', '.join(keys)}."
        return f"{key!r} is not among the settings of {cls.__name__}{hint}"

    def _check(self) -> None:
        """Raise InvalidConfig for a value of the wrong type or outside of its range."""
        for name, expected in _types_of(type(self)).items():
            value = getattr(self, name)
            if expected == Partitioner | None:
                if value is not None and not callable(value):
                    raise InvalidConfig(f"{_key(name)} is {value!r}, but has to be a callable.")
                continue
            try:
                msgspec.convert(value, expected)
            except msgspec.ValidationError as error:
                raise InvalidConfig(f"{_key(name)} is {value!r}: {error}.") from None

    @classmethod
    def table(cls) -> Iterator[ConfigRow]:
        """Yield a row for each setting, for documentation that cannot be wrong."""
        hints = _types_of(cls)
        for name, default in zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True):
            type_name, allowed = _describe(hints[name])
            yield ConfigRow(_key(name), type_name, "" if default is None else str(default), allowed, MEANINGS[name])


@cache
def _types_of(config: type) -> dict[str, Any]:
    """The types of a config's fields; to work them out takes a millisecond, and producers come by the thousand."""
    return get_type_hints(config, include_extras=True)


def _key(name: str) -> str:
    return name.replace("_", ".")


def _describe(hint: object) -> tuple[str, str]:
    """Return the name of a type and what it allows, for people."""
    if hint == Partitioner | None:
        return "callable", ""
    if get_origin(hint) is Literal:
        return "one of", ", ".join(str(choice) for choice in get_args(hint))
    if get_origin(hint) is Annotated:
        kind, meta = get_args(hint)[:2]
        most = "" if meta.le is None else f" to {meta.le}"
        return kind.__name__, f"{meta.ge}{most or ' or more'}"
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    name = getattr(choices[0] if choices else hint, "__name__", str(hint))
    return name, ""


class ProducerConfig(Config, frozen=True, kw_only=True):
    """Settings of a producer."""

    transactional_id: str | None = None
    enable_idempotence: bool = True
    acks: Literal["all", -1, 0, 1] = "all"
    linger_ms: Milliseconds = 0
    batch_size: Bytes = 16 * 1024
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    max_in_flight_requests_per_connection: Annotated[int, Meta(ge=1, le=5)] = 5
    max_request_size: Bytes = 1024 * 1024
    delivery_timeout_ms: PositiveMilliseconds = 120_000
    request_timeout_ms: PositiveMilliseconds = 30_000
    transaction_timeout_ms: PositiveMilliseconds = 60_000
    retry_backoff_ms: PositiveMilliseconds = 20
    retry_backoff_max_ms: PositiveMilliseconds = 200
    buffer_memory: Bytes = 32 * 1024 * 1024
    max_block_ms: Milliseconds = 60_000
    partitioner: Partitioner | None = None

    def _check(self) -> None:
        super()._check()
        if self.transactional_id == "":
            raise InvalidConfig("transactional.id is empty, but has to be a name or None.")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise InvalidConfig("enable.idempotence is False, but transactions need it.")
        if self.enable_idempotence and self.acks not in ("all", -1):
            raise InvalidConfig(f"acks is {self.acks}, but enable.idempotence needs all; set it to False for less.")

    @property
    def acks_number(self) -> int:
        """Acks as a request has them."""
        return -1 if self.acks == "all" else self.acks


class ConsumerConfig(Config, frozen=True, kw_only=True):
    """Settings of a consumer."""

    group_id: str | None = None
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    enable_auto_commit: bool = False
    auto_commit_interval_ms: PositiveMilliseconds = 5000
    fetch_min_bytes: Bytes = 1
    fetch_max_bytes: Bytes = 50 * 1024 * 1024
    fetch_max_wait_ms: Milliseconds = 500
    max_partition_fetch_bytes: Bytes = 1024 * 1024
    max_poll_records: Annotated[int, Meta(ge=1)] = 500
    request_timeout_ms: PositiveMilliseconds = 30_000
    default_api_timeout_ms: PositiveMilliseconds = 60_000
    retry_backoff_ms: PositiveMilliseconds = 20
    retry_backoff_max_ms: PositiveMilliseconds = 200

    def _check(self) -> None:
        super()._check()
        if self.enable_auto_commit and self.group_id is None:
            raise InvalidConfig("enable.auto.commit is True, but there is no group.id to commit for.")


MEANINGS: dict[str, str] = {
    "transactional_id": "The name under which transactions survive restarts; a newer producer of the name fences it.",
    "enable_idempotence": "Whether each record is written exactly once, however often its request is repeated.",
    "acks": "Who has to have a record before it is acknowledged: all replicas in sync, the leader (1), nobody (0).",
    "linger_ms": "How long a batch that is not full waits for more records.",
    "batch_size": "How large a batch of one partition may get, before compression.",
    "compression_type": "The codec of batches.",
    "max_in_flight_requests_per_connection": "How many batches of one partition may be under way at once.",
    "max_request_size": "The largest record that is taken.",
    "delivery_timeout_ms": "How long after `send` a record may be on its way before it is reported as failed.",
    "request_timeout_ms": "How long an answer may take before the request is repeated.",
    "transaction_timeout_ms": "How long a transaction may be open before its coordinator aborts it.",
    "retry_backoff_ms": "The pause before the first repetition; it doubles with each.",
    "retry_backoff_max_ms": "The longest pause between repetitions.",
    "buffer_memory": "How many bytes of records may wait in a producer; `send` waits for room beyond that.",
    "max_block_ms": "How long `send` waits for room or for an unknown topic, and `init` for an identity.",
    "partitioner": "Chooses partitions in the place of Kafka's rule: (topic, key, value, partitions) -> partition.",
    "group_id": "The group whose committed offsets are read and written.",
    "isolation_level": "Whether records of open and aborted transactions are left out.",
    "auto_offset_reset": "Where to begin without an offset, or with one that the log no longer holds.",
    "enable_auto_commit": "Whether `poll` and `close` commit what was returned before.",
    "auto_commit_interval_ms": "How often that is done.",
    "fetch_min_bytes": "How much a leader gathers before it answers, as long as fetch.max.wait.ms lasts.",
    "fetch_max_bytes": "How much one answer of a leader may hold.",
    "fetch_max_wait_ms": "How long a leader waits for fetch.min.bytes.",
    "max_partition_fetch_bytes": "How much of one partition an answer may hold.",
    "max_poll_records": "How many records `poll` returns at most.",
    "default_api_timeout_ms": "How long calls that ask the cluster may take in all.",
}
