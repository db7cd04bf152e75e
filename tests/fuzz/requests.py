"""Requests of a stranger: any API in any version, with fields that are mostly near those that mean something."""

from typing import Any

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.protocol.codec import encode_versioned
from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, layout_of
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.fuzz.batches import Writer, record_data
from tests.fuzz.choices import Choices
from tests.fuzz.knowledge import CONFIGS, GROUPS, NOBODY, TEXTS, TOPICS, TRANSACTIONAL_IDS, WAITS, Knowledge

KEYS = tuple(SERVED)
OFTEN = (0, 1, 2, 3, 8, 9, 11, 12, 14, 22, 22, 24, 25, 26, 26, 28, 27, 0, 0, 68, 13, 0, 24, 26, 28)
"""Those with a state that is worth many requests."""

CREATE_TOPICS, DELETE_TOPICS = 19, 20

_SUBSCRIPTION = ConsumerProtocolSubscription(topics=("orders", "invoices"))
_OPAQUE = (
    b"",
    encode_versioned(_SUBSCRIPTION, 0),
    encode_versioned(_SUBSCRIPTION, 3),
    encode_versioned(ConsumerProtocolAssignment(), 0),
    bytes(40_000),
)
_MOST_ELEMENTS = 64
_MOODS = (0, 0, 0, 40, 40, 12, 12, 4)
"""One field of so many is wild; none for 0."""

_MODEST = {"acks": -1, "replica_id": -1, "session_epoch": 0, "session_id": 0, "current_leader_epoch": -1}
_MODEST |= {"validate_only": False, "include_cluster_authorized_operations": False, "key_type": 0, "member_epoch": 0}
_MODEST |= {
    "resource_type": 2,
    "throttle_time_ms": 0,
    "coordinator_epoch": 0,
    "isolation_level": 0,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
}


class RequestMaker:
    """Fills the fields of requests by choices, from what is known of a cluster.

    Each request is of one producer and one member of a group, so that much of what it says belongs together; and it has
    a mood, by which all of its fields are such as a client has, or some of them are not.
    """

    def __init__(self, choices: Choices, knowledge: Knowledge, now_ms: int) -> None:
        self._choices = choices
        self._knowledge = knowledge
        self._now_ms = now_ms
        self._elements = 0
        self._mood = 0
        self._said: dict[str, Any] = {}

    def make(self) -> tuple[int, int, Any]:
        """A request, with the key and the version of its API."""
        choices = self._choices
        key = choices.of(KEYS) if choices.one_in(3) else choices.of(OFTEN)
        if key == DELETE_TOPICS and not choices.one_in(6):
            key = CREATE_TOPICS
        served = SERVED[key]
        lowest, highest = served.lowest, served.highest
        if choices.one_in(24):
            lowest, highest = served.api.versions
        version = lowest + choices.below(highest - lowest + 1) if choices.one_in(2) else highest
        self._begin()
        request = served.api.request
        return key, version, self._struct(layout_of(request, version, request.wire.is_flexible(version)))

    def _begin(self) -> None:
        """Decide who speaks, and how."""
        choices, knowledge = self._choices, self._knowledge
        self._elements = 0
        self._mood = choices.of(_MOODS)
        name = choices.of((*knowledge.producers, *TRANSACTIONAL_IDS[:2])) if not choices.one_in(10) else ""
        topic = choices.of(("orders", "orders", "invoices", "compacted", "orders", "new", *TOPICS))
        group = choices.of(GROUPS)
        producer_id, epoch = knowledge.producers.get(name, NOBODY)
        member_id, generation = knowledge.members.get(group, ("", -1))
        self._said = {
            "transactional_id": name or None,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "group_id": group,
            "member_id": member_id,
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "member_epoch": generation,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "group_instance_id": None,
            "transactional_ids": name,
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "subscribed_topic_regex": None,
            "cursor": None,
            "response_partition_limit": 100,
            "session_timeout_ms": 6000,
            "name": topic,
            "topic": topic,
            "topics": topic,
            "topic_id": knowledge.topic_ids.get(topic, bytes(16)),
        }

    @property
    def _is_wild(self) -> bool:
        return self._mood > 0 and self._choices.one_in(self._mood)

    def _struct(self, layout: Layout) -> Any:
        slots = layout.slots + (layout.tagged if self._mood and self._choices.one_in(2) else ())
        return layout.struct(**{slot.name: self._value(layout, slot) for slot in slots})

    def _value(self, layout: Layout, slot: Slot) -> Any:
        choices = self._choices
        if not slot.type.is_array:
            value = self._element(layout, slot)
            if value is None and not slot.is_nullable:
                return "" if slot.type.name == "string" else value
            return value
        if slot.is_nullable and choices.one_in(8):
            return None
        if slot.name == "topic_partitions" and not choices.one_in(4):
            return ()
        count = choices.of((1, 1, 1, 2, 0, 3))
        if slot.type.struct is None and self._is_wild and choices.one_in(8):
            return (self._element(layout, slot),) * 1000
        self._elements += count
        if self._elements > _MOST_ELEMENTS:
            return ()
        return tuple([self._element(layout, slot) for _ in range(count)])

    def _element(self, layout: Layout, slot: Slot) -> Any:
        if slot.type.struct is not None:
            if slot.name == "configs" and {"name", "value"} <= set(slot.type.struct.__struct_fields__):
                return self._config(layout.nested(slot.type))
            return self._struct(layout.nested(slot.type))
        name = slot.name
        if slot.type.name == "records":
            return self._records()
        if self._is_wild:
            return None if slot.is_nullable and self._choices.one_in(3) else self._wild(slot)
        if name in self._said:
            said = self._said[name]
            is_text = slot.type.name == "string"
            return said if said is None or isinstance(said, str) is is_text else self._tame(slot)
        value = self._tame(slot)
        if name == "index":
            self._said["in_partition"] = value
        return value

    def _records(self) -> bytes | None:
        said = self._said
        writer = Writer(said["producer_id"], said["producer_epoch"], said["topic"], said.get("in_partition", 0))
        return record_data(self._choices, self._knowledge, self._now_ms, writer, is_wild=self._mood > 0)

    def _tame(self, slot: Slot) -> Any:
        choices, names = self._choices, self._knowledge.names(slot.name)
        match slot.type.name:
            case "bool":
                return choices.one_in(2)
            case "string":
                texts = tuple(each for each in names if isinstance(each, str))
                if not texts or (slot.is_nullable and choices.one_in(4)):
                    return None if slot.is_nullable else "member"
                return choices.of(texts)
            case "uuid":
                ids = tuple(each for each in names if isinstance(each, bytes) and len(each) == 16)
                return choices.of(ids) if ids else bytes(16)
            case "bytes":
                return choices.of(_OPAQUE[:4])
        if slot.name in _MODEST and not choices.one_in(4):
            return _MODEST[slot.name]
        largest = (1 << 8 * FIXED_WIDTH[slot.type.name][1] - 1) - 1
        numbers = tuple(each for each in names if isinstance(each, int) and -largest - 1 <= each <= largest)
        return choices.of(numbers) if numbers else choices.of((0, 1, -1))

    def _wild(self, slot: Slot) -> Any:
        choices = self._choices
        match slot.type.name:
            case "bool":
                return choices.one_in(2)
            case "string":
                if choices.one_in(2):
                    return choices.bytes(choices.below(12)).decode(errors="replace")
                return choices.of(TEXTS)
            case "uuid":
                return choices.of((bytes(16), bytes(15) + b"\1", b"\xff" * 16))
            case "bytes":
                return choices.of(_OPAQUE) if choices.one_in(2) else choices.bytes(choices.below(32))
        width = FIXED_WIDTH[slot.type.name][1]
        largest = (1 << 8 * width - 1) - 1
        if choices.one_in(3):
            return choices.number(width) - largest - 1
        return choices.of((largest, -largest - 1, -2, largest - 1, 2, -1, 0, 1))

    def _config(self, layout: Layout) -> Any:
        name, values = self._choices.of(CONFIGS)
        filled = {slot.name: self._value(layout, slot) for slot in layout.slots}
        value = self._choices.of((*TEXTS, "1e9", "nan", "-1", "0")) if self._is_wild else self._choices.of(values)
        return layout.struct(**filled | {"name": name, "value": value})


def may_wait_long(request: Any) -> bool:
    """Whether a request asks to wait for longer than a test waits."""
    if request is None:
        return False
    waits = [getattr(request, name, 0) for name in WAITS]
    return any(isinstance(each, int) and each > 10_000 for each in waits)
