"""What a stranger knows of a cluster: names that may exist, and what it has been told."""

from collections import Counter, defaultdict, deque
from typing import Any, Self

import msgspec

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.metadata.image import MetadataImage

SECRET = b"6f1d"
"""A part of every name of the honest work, which no stranger may say: without an authorizer, who knows a name may use
it."""

TOPICS = ("orders", "invoices", "compacted", "new", "__transaction_state", "__consumer_offsets", "__cluster_metadata")
GROUPS = ("audit", "billing-group", "members")
TRANSACTIONAL_IDS = ("billing", "shipping", "pooled", "pooled-0", "billing-2")
CONFIGS = (
    ("retention.ms", ("1", "604800000", "-1")),
    ("retention.bytes", ("1", "-1", "100000")),
    ("cleanup.policy", ("compact", "delete", "compact,delete", "none")),
    ("max.message.bytes", ("0", "100", "1048588", "2147483647")),
    ("segment.bytes", ("14", "1000", "1073741824")),
    ("segment.ms", ("1", "1000")),
    ("min.insync.replicas", ("1", "3")),
    ("message.timestamp.type", ("LogAppendTime", "CreateTime")),
    ("compression.type", ("producer", "gzip")),
    ("unclean.leader.election.enable", ("true", "false")),
    ("max.compaction.lag.ms", ("1", "9223372036854775807")),
    ("delete.retention.ms", ("0", "1")),
    ("flush.messages", ("1",)),
    ("leader.placement", ("shared", "dedicated")),
    ("max.transaction.hold.ms", ("1000", "60000")),
    ("unknown.key", ("x",)),
)
MANY_DIGITS = "9" * 5000
"""More than Python makes a number of."""

TEXTS = ("", "\0", "..", "é", "a b", "x" * 250, "x" * 32_767, "ü" * 16_000, MANY_DIGITS, f"q#{MANY_DIGITS}", "²", "٣")
"""What no client would say."""

_NAMES = {
    "transactional_id": TRANSACTIONAL_IDS,
    "transactional_ids": TRANSACTIONAL_IDS,
    "transactional_id_filters": TRANSACTIONAL_IDS,
    "group_id": GROUPS,
    "group_ids": GROUPS,
    "groups": GROUPS,
    "groups_names": GROUPS,
    "group": GROUPS,
    "name": TOPICS,
    "names": TOPICS,
    "topic": TOPICS,
    "topics": TOPICS,
    "topic_name": TOPICS,
    "topic_names": TOPICS,
    "subscribed_topic_names": TOPICS,
    "subscribed_topic_regex": ("orders|invoices", "(", ".*", "a{1000}{1000}"),
    "resource_name": (*TOPICS, "0", ""),
    "protocol_type": ("consumer", "connect"),
    "protocol_name": ("range", "roundrobin"),
    "server_assignor": ("uniform", "range", "other"),
    "group_instance_id": ("static-1", "static-2"),
    "key": (*GROUPS, *TRANSACTIONAL_IDS),
    "coordinator_keys": (*GROUPS, *TRANSACTIONAL_IDS),
    "states_filter": ("Stable", "Empty", "Dead"),
    "state_filters": ("Ongoing", "Empty", "PrepareCommit"),
    "types_filter": ("consumer", "classic"),
    "tag": ("batch-1", "q#1", "q#2"),
}
_NUMBERS = {
    "partition": (0, 1, 2),
    "partition_index": (0, 1, 2),
    "index": (0, 1, 0, 1, 2),
    "partition_indexes": (0, 1, 2),
    "partitions": (0, 1, 2),
    "partition_id": (0, 1),
    "acks": (-1, 1, 0),
    "replica_id": (-1, 0, 1),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 2),
    "resource_type": (2, 4, 8, 32),
    "config_operation": (0, 1, 2, 3),
    "min_bytes": (0, 1, 100_000),
    "max_bytes": (1 << 20, 0, 1, 50 << 20),
    "partition_max_bytes": (1 << 20, 0, 100),
    "fetch_offset": (0, 1, 2, 5, 20),
    "current_leader_epoch": (-1, 0, 1),
    "leader_epoch": (-1, 0, 1),
    "committed_leader_epoch": (-1, 0),
    "last_fetched_epoch": (-1, 0, 1),
    "log_start_offset": (-1, 0),
    "committed_offset": (0, 1, 7),
    "offset": (0, 1, 3, -1),
    "timestamp": (-1, -2, -3, 0),
    "session_epoch": (0, 1, 2, -1),
    "num_partitions": (1, 2, 3, -1),
    "replication_factor": (1, 2, -1),
    "count": (1, 2, 4),
    "generation_id": (-1, 0, 1, 2),
    "generation_id_or_member_epoch": (-1, 0, 1, 2),
    "member_epoch": (0, -1, -2, 1, 2),
    "producer_epoch": (0, 1, 2, -1),
    "coordinator_epoch": (0, 1, -1),
    "broker_ids": (0, 1),
    "replicas": (0, 1),
}
WAITS = ("timeout_ms", "max_wait_ms", "rebalance_timeout_ms", "session_timeout_ms", "transaction_timeout_ms")
"""Fields that say how long a request may take, or its effects last."""

_HEARD = frozenset({"session_id", "topic_id", "base_offset", "high_watermark", "last_stable_offset", "leader_epoch"})
_REMEMBERED = 12
NOBODY = (-1, -1)


class Knowledge:
    """Owns: what answers have told, the newest few of each kind."""

    def __init__(self) -> None:
        self._heard: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self.producers: dict[str, tuple[int, int]] = {}
        """Producer ids and epochs by transactional ids; of idempotent producers, by no name."""
        self.topic_ids: dict[str, bytes] = {}
        self.members: dict[str, tuple[str, int]] = {}
        """Member ids and generations, or member epochs, by groups."""
        self.sequences: Counter[tuple[int, int, str, int]] = Counter()
        """How many records were sent, by producer, epoch and partition."""

    @classmethod
    def beside_honest_work(cls, image: MetadataImage) -> Self:
        """Know the topics that there are, but for those of the honest work."""
        knowledge = cls()
        for name, topic in image.topics.items():
            if SECRET.decode() not in name:
                knowledge.hear_of(name, topic.topic_id)
        return knowledge

    def names(self, field: str) -> tuple[Any, ...]:
        """Values by which something may exist."""
        if field.endswith(WAITS):
            return (1000, 6000, 100)
        return (*self._heard.get(field, ()), *_NAMES.get(field, ()), *_NUMBERS.get(field, ()))

    def hear_of(self, topic: str, topic_id: bytes) -> None:
        """Know a topic, as whoever asks for metadata does."""
        self._heard["topic_id"].append(topic_id)
        self.topic_ids[topic] = topic_id

    def hear(self, request: Any, answer: Any) -> None:
        """Remember what an answer says."""
        self._hear_who(request, answer)
        self._hear_all(answer)

    def _hear_who(self, request: Any, answer: Any) -> None:
        """Remember who the asker is by now."""
        producer = getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1)
        if producer[0] >= 0 and getattr(answer, "error_code", 0) == 0:
            self.producers[getattr(request, "transactional_id", None) or ""] = producer
        identity = getattr(answer, "producer", None)
        if isinstance(identity, ProducerIdentity) and identity.producer_id >= 0 and not answer.error_code:
            self.producers[getattr(request, "transactional_id", None) or ""] = identity.producer_id, identity.epoch
        member, group = (
            getattr(answer, "member_id", None),
            getattr(request, "group_id", None) or getattr(request, "group", None),
        )
        if member and group:
            epochs = (getattr(answer, name, None) for name in ("generation_id", "generation", "member_epoch"))
            epoch = next((each for each in epochs if isinstance(each, int)), -1)
            self.members[group] = member, epoch

    def _hear_all(self, answer: Any) -> None:
        if isinstance(answer, msgspec.Struct):
            for name in answer.__struct_fields__:
                value = getattr(answer, name)
                if isinstance(value, msgspec.Struct | tuple | list):
                    self._hear_all(value)
                elif name in _HEARD and value is not None and value not in self._heard[name]:
                    self._heard[name].append(value)
        elif isinstance(answer, tuple | list):
            for each in answer[:8]:
                self._hear_all(each)
