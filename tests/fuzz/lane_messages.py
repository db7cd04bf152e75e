"""Questions of a handle on the direct lane: any that it may send, with fields mostly near those that mean something."""

import enum
from typing import Any

import msgspec.inspect as inspect

from eagleray.actors.lanes.catalog import NODE_REQUESTS, REQUESTS
from eagleray.broker.controller.events import PlanNodes, RegisterNode
from eagleray.broker.controller.replica_events import ChangeIsr, DrainNodes, NodeBeat
from eagleray.broker.groups.classic.events import JoinGroup
from eagleray.broker.groups.events import CommitTransactionOffsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.partitions.events import Fetch, Produce
from eagleray.broker.transactions import events as transactions
from tests.fuzz.batches import Writer, record_data
from tests.fuzz.choices import Choices
from tests.fuzz.knowledge import CONFIGS, GROUPS, MANY_DIGITS, NOBODY, TEXTS, TRANSACTIONAL_IDS, Knowledge

OF_THE_CLUSTER = {PlanNodes, RegisterNode, NodeBeat, ChangeIsr, DrainNodes}
"""What only nodes and those who run a cluster say. Whoever has the token may say it, and end the cluster by that."""

ASKED = tuple(
    kind
    for kinds in (*REQUESTS.values(), NODE_REQUESTS)
    for kind in kinds
    if kind not in OF_THE_CLUSTER and kind.__name__ != "RaftMessage"
)
OFTEN = (
    *(getattr(transactions, name) for name in ("InitProducerId", "AddPartitions", "EndTransaction", "BeginBranched")),
    *(getattr(transactions, name) for name in ("OpenBranch", "EndBranched", "PrepareTransaction", "TakePoolOver")),
    *(Produce, Produce, Produce, Fetch, CommitTransactionOffsets, JoinGroup, transactions.CompleteTransaction),
)
_MOODS = (0, 0, 0, 40, 12, 4)
_NAMES = {
    "transactional_id": TRANSACTIONAL_IDS,
    "group": GROUPS,
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "tag": ("batch-1", "batch-2", "q#1", "q#2", f"q#{MANY_DIGITS}"),
    "topic": ("orders", "invoices", "compacted", "new"),
    "member_id": ("",),
    "subscribed_topic_regex": ("orders.*", "("),
    "server_assignor": ("uniform", "range"),
}
_NAMES |= dict.fromkeys(("name", "names", "topics", "subscribed_topic_names", "dedicated_to"), _NAMES["topic"])
_NUMBERS = {
    "timeout_ms": (60_000, 1000, 6000),
    "max_wait_ms": (0, 10, 500),
    "session_timeout_ms": (6000, 10_000),
    "rebalance_timeout_ms": (1000, 6000),
    "partition": (0, 1, 0, 2),
    "client_version": (1, 2),
    "transaction_version": (1, 2),
    "max_bytes": (1 << 20, 0),
    "acks": (-1, 1),
    "generation": (-1, 1, 2),
    "member_epoch": (0, 1, -1),
    "coordinator_epoch": (0, 1, 2**31 - 1),
    "leader_epoch": (-1, 0, 1),
    "timestamp": (-1, -2, 0),
    "epoch": (0, 1, 2),
    "port": (9000,),
}
_MOST_DEPTH = 8


class LaneMaker:
    """Fills the fields of questions by choices; see `RequestMaker`."""

    def __init__(self, choices: Choices, knowledge: Knowledge, now_ms: int) -> None:
        self._choices = choices
        self._knowledge = knowledge
        self._now_ms = now_ms
        self._mood = 0
        self._said: dict[str, Any] = {}
        self._producer = ProducerIdentity(*NOBODY)
        self._partition = TopicPartition("orders", 0)

    def make(self, request_id: int) -> Any:
        """A question; not every one is such as the other end would read."""
        choices, knowledge = self._choices, self._knowledge
        kind = choices.of(ASKED) if choices.one_in(3) else choices.of(OFTEN)
        self._mood = choices.of(_MOODS)
        name = choices.of((*knowledge.producers, *TRANSACTIONAL_IDS[:3]))
        group = choices.of(GROUPS)
        member_id, generation = knowledge.members.get(group, ("", -1))
        self._producer = ProducerIdentity(*knowledge.producers.get(name, NOBODY))
        self._partition = TopicPartition(choices.of(_NAMES["topic"]), choices.of((0, 1, 0, 1, 2)))
        self._said = {"transactional_id": name, "group": group, "member_id": member_id, "generation": generation}
        filled = self._fields(inspect.type_info(kind), 0)
        return kind(**filled | {"request_id": request_id})

    @property
    def _is_wild(self) -> bool:
        return self._mood > 0 and self._choices.one_in(self._mood)

    def _fields(self, info: Any, depth: int) -> dict[str, Any]:
        return {field.name: self._value(field.type, field.name, depth) for field in info.fields}

    def _value(self, info: Any, name: str, depth: int) -> Any:
        choices = self._choices
        match info:
            case inspect.StructType():
                if info.cls is ProducerIdentity and not self._is_wild:
                    return self._producer
                if info.cls is TopicPartition and not self._is_wild:
                    return self._partition
                return info.cls(**self._fields(info, depth + 1))
            case inspect.UnionType():
                types = info.types
                absent = next((each for each in types if isinstance(each, inspect.NoneType)), None)
                is_left_out = depth > _MOST_DEPTH or name in ("origin", "client", "owner", "expected", "resolver")
                if absent is not None and (choices.one_in(2) or (is_left_out and not choices.one_in(8))):
                    return None
                return self._value(choices.of([each for each in types if each is not absent]), name, depth)
            case inspect.VarTupleType() | inspect.ListType():
                return tuple([self._value(info.item_type, name, depth + 1) for _ in range(self._count())])
            case inspect.FrozenSetType():
                return frozenset({self._value(info.item_type, name, depth + 1)})
            case inspect.TupleType():
                return tuple([self._value(each, name, depth + 1) for each in info.item_types])
            case inspect.DictType():
                return self._mapping(info, name, depth)
        return self._wild(info) if self._is_wild else self._tame(info, name)

    def _count(self) -> int:
        if self._is_wild and self._choices.one_in(8):
            return 300
        return self._choices.of((1, 1, 1, 2, 0))

    def _mapping(self, info: Any, name: str, depth: int) -> dict[Any, Any]:
        if name in ("configs", "changes", "added", "removed") and isinstance(info.value_type, inspect.StrType):
            key, values = self._choices.of(CONFIGS)
            return {key: self._choices.of(TEXTS if self._is_wild else values)}
        return {self._value(info.key_type, "topic", depth): self._value(info.value_type, name, depth)}

    def _tame(self, info: Any, name: str) -> Any:
        choices = self._choices
        match info:
            case inspect.IntType():
                least, most = -(2**63) if info.ge is None else info.ge, 2**63 - 1 if info.le is None else info.le
                if isinstance(self._said.get(name), int):
                    return self._said[name]
                known = (*self._knowledge.names(name), *_NUMBERS.get(name, ()))
                fitting = [each for each in known if isinstance(each, int) and least <= each <= most]
                return choices.of(fitting) if fitting else max(least, choices.of((0, 1, 2)))
            case inspect.StrType():
                if isinstance(self._said.get(name), str):
                    return self._said[name]
                return choices.of(_NAMES.get(name, ("member",)))
            case inspect.BytesType():
                return self._octets(name)
            case inspect.BoolType():
                return choices.one_in(2)
            case inspect.EnumType():
                return choices.of(tuple(info.cls)) if issubclass(info.cls, enum.Enum) else 0
        return None

    def _octets(self, name: str) -> bytes:
        choices = self._choices
        if name == "records":
            writer = Writer(*(self._producer.producer_id, self._producer.epoch), *_parts(self._partition))
            return record_data(choices, self._knowledge, self._now_ms, writer, is_wild=self._mood > 0) or b""
        if name == "topic_id":
            return choices.of((*self._knowledge.topic_ids.values(), bytes(16)))
        return choices.of((b"", b"x", choices.bytes(choices.below(20))))

    def _wild(self, info: Any) -> Any:
        choices = self._choices
        match info:
            case inspect.IntType():
                least, most = -(2**63) if info.ge is None else info.ge, 2**63 - 1 if info.le is None else info.le
                values = (least, most, least - 1, most + 1, -1, choices.number(8) - 2**63)
                value = choices.of(values)
                return value if -(2**63) <= value < 2**64 else most
            case inspect.StrType():
                return choices.of((*TEXTS, choices.bytes(choices.below(12)).decode(errors="replace")))
            case inspect.BytesType():
                return choices.of((b"", bytes(70), b"x" * 40_000))
            case inspect.EnumType():
                return choices.of((*info.cls, 99, "none"))
            case inspect.BoolType():
                return choices.of((True, False, 2))
        return None


def _parts(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition
