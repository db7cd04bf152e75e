"""Settings of producers and consumers under Kafka's names, checked when they are made.

ProducerConfig.make({"transactional.id": "billing-1", "linger.ms": 5})
ProducerConfig.make(transactional_id="billing-1", linger_ms=5)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from eagleray.broker.transactions.pools.names import LONGEST_ID_BYTES, is_possible_id, slot_of
from eagleray.client.errors import InvalidConfig
from eagleray.client.settings import Acks, AutoOffsetReset, CompressionType, IsolationLevel, Partitioner, RemoteAssignor

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
        kind = cls.__name__.removesuffix("Config").lower()
        if key.replace(".", "_") == "bootstrap_servers":
            return (
                f"{key!r} is a setting of Kafka's clients; `eagleray.connect` finds the cluster of a {kind} without it."
            )
        # The answer is spelt as the question was: with dots in a mapping, with underscores in keywords.
        names = [_key(name) if "." in key else name for name in cls.__struct_fields__]
        near = difflib.get_close_matches(key, names, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}."
        return f"{key!r} is not a setting of a {kind}{hint}"

    def _check(self) -> None:
        for name, expected in _types_of(type(self)).items():
            value = getattr(self, name)
            if expected == Partitioner | None:
                if value is not None and not callable(value):
                    raise InvalidConfig(f"{_key(name)} is {value!r}, but has to be a callable.")
                continue
            if get_origin(expected) is Literal:
                check_choice(_key(name), value, get_args(expected))
                continue
            try:
                msgspec.convert(value, expected)
            except msgspec.ValidationError as error:
                raise InvalidConfig(f"{_key(name)} is {value!r}: {error}.") from None
            if isinstance(value, str) and not _is_utf8(value):
                raise InvalidConfig(f"{_key(name)} is {value!r}, but has to be a text that can be written as UTF-8.")

    @classmethod
    def table(cls) -> Iterator[ConfigRow]:
        """Yield a row for each setting, for documentation that cannot be wrong."""
        hints = _types_of(cls)
        for name, default in zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True):
            type_name, allowed = _describe(hints[name])
            yield ConfigRow(_key(name), type_name, "" if default is None else str(default), allowed, MEANINGS[name])


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise InvalidConfig for a value that is not among those allowed, and list these."""
    choices = tuple(allowed)
    # True equals 1, and is no number of acknowledgements.
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        raise InvalidConfig(f"{name} is {value!r}, but has to be one of {', '.join(map(repr, choices))}.")


@cache
def _types_of(config: type) -> dict[str, Any]:
    """The types of a config's fields; to work them out takes a millisecond, and producers come by the thousand."""
    return get_type_hints(config, include_extras=True)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _key(name: str) -> str:
    return name.replace("_", ".")


def _describe(hint: object) -> tuple[str, str]:
    if hint == Partitioner | None:
        return "callable", ""
    if get_origin(hint) is Literal:
        return "one of", ", ".join("none" if choice is None else str(choice) for choice in get_args(hint))
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
    acks: Acks = "all"
    linger_ms: Milliseconds = 0
    batch_size: Bytes = 16 * 1024
    compression_type: CompressionType = "none"
    max_in_flight_requests_per_connection: Annotated[int, Meta(ge=1, le=5)] = 5
    max_request_size: Bytes = 1024 * 1024
    delivery_timeout_ms: PositiveMilliseconds = 120_000
    request_timeout_ms: PositiveMilliseconds = 30_000
    transaction_timeout_ms: PositiveMilliseconds = 60_000
    transaction_two_phase_commit_enable: bool = False
    retries: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 2**31 - 1
    retry_backoff_ms: PositiveMilliseconds = 20
    retry_backoff_max_ms: PositiveMilliseconds = 200
    buffer_memory: Bytes = 32 * 1024 * 1024
    max_block_ms: Milliseconds = 60_000
    partitioner: Partitioner | None = None

    def _check(self) -> None:
        super()._check()
        if self.transactional_id == "":
            raise InvalidConfig("transactional.id is empty, but has to be a name or None.")
        if self.transactional_id is not None and not is_possible_id(self.transactional_id):
            raise InvalidConfig(
                f"transactional.id has {len(self.transactional_id.encode())} bytes in UTF-8; expected at most "
                f"{LONGEST_ID_BYTES}."
            )
        if self.transactional_id is not None and slot_of(self.transactional_id) is not None:
            raise InvalidConfig(
                f"transactional.id is {self.transactional_id!r}, the name of a slot of a pool; choose another name, "
                "or enter the pool."
            )
        if self.transaction_two_phase_commit_enable and self.transactional_id is None:
            raise InvalidConfig("transaction.two.phase.commit.enable is True, but there is no transactional.id.")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise InvalidConfig("enable.idempotence is False, but transactions need it.")
        if self.enable_idempotence and self.acks not in ("all", -1):
            raise InvalidConfig(f"acks is {self.acks}, but enable.idempotence needs all; set it to False for less.")
        if self.enable_idempotence and self.retries == 0:
            raise InvalidConfig("retries is 0, but enable.idempotence needs 1 or more; set it to False for none.")

    @property
    def acks_number(self) -> int:
        """Acks as a request has them."""
        return -1 if self.acks == "all" else self.acks


class ConsumerConfig(Config, frozen=True, kw_only=True):
    """Settings of a consumer."""

    group_id: str | None = None
    group_instance_id: str | None = None
    group_remote_assignor: RemoteAssignor = None
    max_poll_interval_ms: PositiveMilliseconds = 300_000
    isolation_level: IsolationLevel = "read_committed"
    auto_offset_reset: AutoOffsetReset = "earliest"
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
        for name in ("group_id", "group_instance_id"):
            if getattr(self, name) == "":
                raise InvalidConfig(f"{_key(name)} is empty, but has to be a name or None.")
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidConfig("group.instance.id is set, but there is no group.id to be a member of.")


MEANINGS: dict[str, str] = {
    "transactional_id": "The name under which transactions survive restarts; a newer producer of the name fences it.",
    "enable_idempotence": "Whether each record is written exactly once, however often its request is repeated.",
    "acks": "Which replicas have a record before it is acknowledged: all in sync, the leader (1), none (0).",
    "linger_ms": "How long a batch that is not full waits for more records before the producer sends it.",
    "batch_size": "The size, before compression, at which a batch for one partition is full and is sent.",
    "compression_type": "The codec by which the producer compresses its batches.",
    "max_in_flight_requests_per_connection": "How many batches of one partition may be on their way at once.",
    "max_request_size": "The size of the largest record that the producer takes; `send` refuses a larger one.",
    "delivery_timeout_ms": "How long after `send` a record may be on its way before it is reported as failed.",
    "request_timeout_ms": "How long the client waits for the answer to a request before it repeats the request.",
    "transaction_timeout_ms": "How long a transaction may be open, and not prepared, before its coordinator aborts it.",
    "transaction_two_phase_commit_enable": (
        "Whether the producer may prepare its transactions, and keeps one that a crash has left prepared."
    ),
    "retries": "How often a batch is sent again after an error that may pass, as long as delivery.timeout.ms lasts.",
    "retry_backoff_ms": "How long the client waits before it repeats a request; the wait doubles each time.",
    "retry_backoff_max_ms": "The longest wait of the client before it repeats a request.",
    "buffer_memory": "How many bytes of records may wait in a producer; `send` waits for room beyond that.",
    "max_block_ms": "How long `send` waits for room or for an unknown topic, and `init` for an identity.",
    "partitioner": "A function in the place of Kafka's rule: (topic, key, value, partitions) -> partition.",
    "group_id": "The group that a subscription joins, and whose committed offsets are read and written.",
    "group_instance_id": "The name of a static member, which keeps its partitions while it is away for a moment.",
    "group_remote_assignor": "How the coordinator shares the partitions of a group out; none for the broker's first.",
    "max_poll_interval_ms": "How long the application may take between two polls before the member leaves its group.",
    "isolation_level": "Whether the consumer leaves out records of open and aborted transactions, or not.",
    "auto_offset_reset": "Where the consumer begins without an offset, or with one that the log no longer holds.",
    "enable_auto_commit": "Whether `poll` and `close` commit the offsets of records that were returned before.",
    "auto_commit_interval_ms": "How often `poll` commits offsets by itself, where enable.auto.commit is true.",
    "fetch_min_bytes": "How much a leader gathers before it answers a fetch, as long as fetch.max.wait.ms lasts.",
    "fetch_max_bytes": "How much one answer of a leader to a fetch may hold.",
    "fetch_max_wait_ms": "How long a leader waits for fetch.min.bytes before it answers a fetch with less.",
    "max_partition_fetch_bytes": "How much of one partition an answer of a leader to a fetch may hold.",
    "max_poll_records": "The most records that one `poll` returns.",
    "default_api_timeout_ms": "How long a call of the consumer that asks the cluster may take in all.",
}
