"""What an admin is asked for, checked before anything is sent: Kafka's types, ranges and names.

Each function takes what an application gave, returns it in the form that a request has, and raises an error that says
what was wrong, what was expected and which argument it was. The cluster checks the same again; it is never asked for
what cannot be put on a lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topic_names import problem_with
from eagleray.broker.security.sasl import LONGEST_NAME as LONGEST_USER
from eagleray.broker.security.scram import LEAST_ITERATIONS, MOST_ITERATIONS, ScramMechanism
from eagleray.broker.transactions.pools.names import LONGEST_ID_BYTES, LONGEST_POOL_BYTES, SLOT_MARK, slot_of
from eagleray.broker.transactions.states import KAFKA_NAMES
from eagleray.client.errors import EaglerayError, InvalidArgument, TopicRefused
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from eagleray.protocol.errors import ErrorCode

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
_LONGEST_NAME: Final = 2**15 - 1
_DEFAULT: Final = -1


def _wrong(argument: str, value: object, expected: str) -> InvalidArgument:
    return InvalidArgument(f"{argument} is {_shown(value)}; expected {expected}.")


def _shown(value: object) -> str:
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}…"
    return shown if isinstance(value, int | str | bytes | None) else f"{shown} ({type(value).__name__})"


def context(value: object) -> bytes:
    """Return what is to be kept with a prepared transaction."""
    if not isinstance(value, bytes):
        raise InvalidArgument(f"context is {value!r}, but has to be bytes.")
    return value


# Numbers


def integer(argument: str, value: object, least: int, most: int = MAX_INT64) -> int:
    """Return a whole number; a text, a float or a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(argument, value, f"a whole number from {least} to {most}")
    return value


def timeout_ms(argument: str, value: object) -> int:
    """Return how long to wait, as Kafka's int32."""
    return integer(argument, value, 0, MAX_INT32)


def node_id(argument: str, value: object) -> int:
    """Return the id of a node."""
    return integer(argument, value, 0, MAX_INT32)


def user(value: object) -> str:
    """Return the name of a user."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_USER:
        raise _wrong("user", value, f"a name of 1 to {LONGEST_USER} characters")
    return value


def password(value: object) -> str:
    """Return a password; an error does not show it."""
    if not isinstance(value, str) or not value:
        raise _wrong("password", type(value), "a text that is not empty")
    return value


def iterations(value: object) -> int:
    """Return how often a password is hashed."""
    return integer("iterations", value, LEAST_ITERATIONS, MOST_ITERATIONS)


def scram_mechanism(value: object) -> ScramMechanism:
    """Return a SCRAM mechanism."""
    if value not in [*ScramMechanism]:
        raise _wrong("mechanism", value, " or ".join(ScramMechanism))
    return ScramMechanism(str(value))


def node_or_machine(value: object) -> int | str:
    """Return the id of a node, or the address of a machine; that of the only one is empty, as `list_nodes` has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong("node", value, "the id of a node, such as 30, or the address of a machine, such as '192.0.2.11'")
    return node_id("node", value)


def partition_count(value: object, *, has_default: bool = False) -> int:
    """Return how many partitions a topic is to have."""
    return _count("partitions", value, ErrorCode.INVALID_PARTITIONS, MAX_INT32, has_default=has_default)


def replication_factor(value: object) -> int:
    """Return on how many machines a partition is to be."""
    return _count("replication_factor", value, ErrorCode.INVALID_REPLICATION_FACTOR, 2**15 - 1, has_default=True)


def _count(argument: str, value: object, error_code: ErrorCode, most: int, *, has_default: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(argument, value, f"a whole number from 1 to {most}")
    if not (1 <= value <= most or (has_default and value == _DEFAULT)):
        default = ", or -1 for the cluster's default" if has_default else ""
        raise TopicRefused(f"{argument} is {value}; expected 1 to {most}{default}.", error_code)
    return value


# Names


def text(argument: str, value: object, *, longest: int = _LONGEST_NAME) -> str:
    """Return a text that has characters, each of which UTF-8 has bytes for."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise _wrong(argument, value, f"a text of 1 to {longest} characters")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise _wrong(argument, value, "a text that can be written as UTF-8") from None
    if size_bytes > longest:
        raise _wrong(argument, value, f"a text of at most {longest} bytes in UTF-8; it has {size_bytes}")
    return value


def new_topic(value: object) -> str:
    """Return a name that a topic may have, by Kafka's rules."""
    return _possible_topic(value, TopicRefused)


def topic(value: object) -> str:
    """Return the name of a topic that may be there."""
    return text("the topic", value)


def topic_to_use(value: object) -> str:
    """Return the name of a topic that may be there or come; what no topic can be named is not waited for."""
    return _possible_topic(value, InvalidArgument)


def _possible_topic(value: object, refusal: type[EaglerayError]) -> str:
    if not isinstance(value, str):
        raise _wrong("the topic", value, "its name, a str")
    problem = problem_with(value)
    if problem is not None:
        raise refusal(f"{problem}.", ErrorCode.INVALID_TOPIC_EXCEPTION)
    return value


def subscription(topics: Iterable[object], pattern: object) -> tuple[tuple[str, ...], str | None]:
    """Return the topics that a consumer subscribes to, each once, and its regular expression."""
    return tuple(sorted({topic_to_use(name) for name in topics})), None if pattern is None else text("pattern", pattern)


def group(value: object) -> str:
    """Return the name of a group."""
    return text("the group", value)


def consumer_group(value: object) -> ConsumerGroupMetadata:
    """Return who consumes; the name of a group stands for a consumer that is none of its members."""
    if not isinstance(value, ConsumerGroupMetadata):
        return ConsumerGroupMetadata(group(value))
    group(value.group_id)
    integer("the generation of the group", value.generation, -1, MAX_INT32)
    if not isinstance(value.member_id, str):
        raise _wrong("the member id", value.member_id, "a text")
    if not isinstance(value.group_instance_id, str | None):
        raise _wrong("the group instance id", value.group_instance_id, "a text or None")
    return value


def transactional_id(value: object) -> str:
    """Return a transactional id."""
    return text("the transactional id", value, longest=LONGEST_ID_BYTES)


def branched_id(value: object) -> str:
    """Return the transactional id of a transaction with many writers, which is no slot of a pool."""
    return _no_slot("the transactional id", transactional_id(value))


def pool_name(value: object) -> str:
    """Return the name of a pool, which is a transactional id and no slot of another pool."""
    argument = "the name of the pool"
    return _no_slot(argument, text(argument, value, longest=LONGEST_POOL_BYTES))


def _no_slot(argument: str, name: str) -> str:
    if slot_of(name) is not None:
        raise _wrong(argument, name, f"a name without {SLOT_MARK!r} and a number at its end, as slots of pools have it")
    return name


def transaction_states(values: object) -> tuple[str, ...]:
    """Return states of transactions, by Kafka's names."""
    states = _items("states", values, "a sequence of states")
    for state in states:
        if state not in KAFKA_NAMES:
            raise _wrong("a state", state, f"one of {', '.join(KAFKA_NAMES)}")
    return tuple(map(str, states))


def topics(values: object) -> tuple[str, ...]:
    """Return names of topics."""
    return tuple(map(topic, _items("topics", values, "a sequence of names of topics")))


def producer_ids(values: object) -> tuple[int, ...]:
    """Return ids of producers."""
    found = _items("producer_ids", values, "a sequence of producer ids")
    return tuple(integer("a producer id", value, 0) for value in found)


def _items(argument: str, values: object, expected: str) -> tuple[object, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _wrong(argument, values, expected)
    return tuple(values)


# Settings


def configs(values: object) -> dict[str, str]:
    """Return settings as Kafka's texts; numbers and bools may stand for themselves."""
    return {key: _config(key, value) for key, value in _mapping("configs", values).items()}


def config_changes(values: object) -> dict[str, str | None]:
    """Return settings to set, and with None those to take back."""
    given = _mapping("the changes", values)
    return {key: None if value is None else _config(key, value) for key, value in given.items()}


def _mapping(argument: str, values: object) -> dict[str, object]:
    example = 'settings by their names, such as {"retention.ms": 86400000}'
    if not isinstance(values, Mapping):
        raise _wrong(argument, values, example)
    for key in values:
        if not isinstance(key, str):
            raise _wrong(f"a key of {argument}", key, example)
    return dict(values)


def _config(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise _wrong(key, value, "a text, a number or a bool")
    return value


# Partitions


def partition(value: object) -> TopicPartition:
    """Return a partition."""
    if not isinstance(value, TopicPartition):
        raise _wrong("a partition", value, 'a TopicPartition, such as TopicPartition("orders", 0)')
    text(f"the topic of {value!r}", value.topic)
    integer(f"the partition of {value!r}", value.partition, 0, MAX_INT32)
    return value


def partitions(values: object) -> tuple[TopicPartition, ...]:
    """Return partitions."""
    return tuple(map(partition, _items("the partitions", values, "a sequence of TopicPartitions")))


def offsets_to_delete(values: object) -> dict[TopicPartition, int]:
    """Return offsets before which records are deleted; -1 stands for all of them."""
    return _by_partition("the offsets", values, -1)


def timestamps_to_list(values: object) -> dict[TopicPartition, int]:
    """Return timestamps to look up, or Kafka's negative names for places in a log."""
    return _by_partition("the timestamps", values, -6)


def _by_partition(argument: str, values: object, least: int) -> dict[TopicPartition, int]:
    if not isinstance(values, Mapping):
        raise _wrong(argument, values, "a mapping from TopicPartition to a whole number")
    return {partition(name): integer(f"{argument} of {name}", number, least) for name, number in values.items()}


def offsets_to_commit(values: object) -> dict[TopicPartition, int | OffsetAndMetadata]:
    """Return how far a group has come."""
    if not isinstance(values, Mapping):
        raise _wrong("the offsets", values, "a mapping from TopicPartition to an offset")
    return {partition(name): _offset(name, value) for name, value in values.items()}


def _offset(name: TopicPartition, value: object) -> int | OffsetAndMetadata:
    if not isinstance(value, OffsetAndMetadata):
        return integer(f"the offset of {name}", value, 0)
    integer(f"the offset of {name}", value.offset, 0)
    integer(f"the leader epoch of {name}", value.leader_epoch, -1, MAX_INT32)
    if not isinstance(value.metadata, str):
        raise _wrong(f"the metadata of {name}", value.metadata, "a text")
    return value


def reassignments(values: object) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Return where replicas are to be; None takes a move back."""
    if not isinstance(values, Mapping):
        raise _wrong("the targets", values, "a mapping from TopicPartition to ids of nodes, or None")
    return {partition(name): None if nodes is None else _nodes(name, nodes) for name, nodes in values.items()}


def _nodes(name: TopicPartition, values: object) -> tuple[int, ...]:
    found = _items(f"the target of {name}", values, "ids of nodes, such as [0, 100]")
    return tuple(node_id(f"a node of {name}", value) for value in found)
