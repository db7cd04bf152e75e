"""Settings of the controller, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.groups.config import OffsetsPartitions
from eagleray.broker.log.config import LEAST_SEGMENT_BYTES
from eagleray.broker.settings import INT64_MAX, NOT_IN_KAFKA, Changed, Setting, check_ranges
from eagleray.broker.transactions.config import TransactionLogPartitions

_INT16_MAX = 2**15 - 1


def _replicas_of(topic: str) -> Setting:
    return Setting(
        f"The number of replicas of each partition of `{topic}`; at most as many as there are machines when the "
        "cluster is created.",
        least=1,
        most=_INT16_MAX,
        changed=Changed.NEVER,
    )


def _segment_bytes_of(topic: str) -> Setting:
    return Setting(
        f"The size at which a segment file of `{topic}` is closed. Only closed ones are compacted, so a smaller one "
        "keeps the log short, and coordinators quick to load it.",
        least=LEAST_SEGMENT_BYTES,
        changed=Changed.NEVER,
    )


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What new topics are like, and how much the controller keeps for those who wait or follow."""

    num_partitions: Annotated[
        int, Setting("The number of partitions of a new topic whose creator does not name one.", least=1)
    ] = 1

    transaction_state_log_num_partitions: TransactionLogPartitions = 50
    offsets_topic_num_partitions: OffsetsPartitions = 50

    default_replication_factor: Annotated[
        int,
        Setting(
            "The number of replicas of each partition of a new topic whose creator does not name one.",
            least=1,
            most=_INT16_MAX,
        ),
    ] = 1

    min_insync_replicas: Annotated[
        int,
        Setting(
            "The number of replicas that have to be in sync for a write with `acks=all` to be taken, for new topics "
            "whose creator does not set it; at most as many as a partition has replicas.",
            least=1,
        ),
    ] = 1

    transaction_state_log_replication_factor: Annotated[int, _replicas_of("__transaction_state")] = 3

    transaction_state_log_min_isr: Annotated[
        int,
        Setting(
            "The number of replicas of a partition of `__transaction_state` that have to be in sync for the "
            "coordinator to decide anything; at most as many as the partition has replicas.",
            least=1,
            changed=Changed.NEVER,
        ),
    ] = 2

    transaction_state_log_segment_bytes: Annotated[int, _segment_bytes_of("__transaction_state")] = 100 * 1024**2

    offsets_topic_replication_factor: Annotated[int, _replicas_of("__consumer_offsets")] = 3

    offsets_topic_segment_bytes: Annotated[int, _segment_bytes_of("__consumer_offsets")] = 100 * 1024**2

    auto_leader_rebalance_enable: Annotated[
        bool,
        Setting(
            "Whether the preferred replica of a partition, the first of its list, is made leader again by itself after "
            "it was away."
        ),
    ] = True

    leader_imbalance_check_interval_seconds: Annotated[
        int,
        Setting(
            "How often the controller looks for partitions whose preferred replica is in sync and does not lead; it "
            "acts by `auto.leader.rebalance.enable`.",
            least=1,
        ),
    ] = 300

    dedicated_nodes_limit: Annotated[
        int,
        Setting(
            "The number of partitions, of all topics with `leader.placement=dedicated` together, that may have an "
            "actor of their own; each is a process.",
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 64

    max_topics_per_cluster: Annotated[
        int,
        Setting(
            "The number of topics that a cluster may have, the internal ones not counted. Further ones are refused "
            "with POLICY_VIOLATION, also those that would be created because a client asks for their metadata.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 100_000

    max_scram_users: Annotated[
        int,
        Setting(
            "The number of users that may have SCRAM credentials, which every node keeps in memory. Those of further "
            "users are refused with POLICY_VIOLATION.",
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 10_000

    max_partitions_per_cluster: Annotated[
        int,
        Setting(
            "The number of partitions that all topics of a cluster together may have, those of the internal ones not "
            "counted. Further ones are refused with POLICY_VIOLATION.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 200_000

    deleted_topics_retention_ms: Annotated[
        int,
        Setting(
            "How long the metadata keep the id of a topic that was deleted. A node that was away for longer does not "
            "learn of the deletion: it keeps the topic's files as strays, until a person removes them.",
            most=INT64_MAX,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 30 * 24 * 60 * 60 * 1000

    queued_requests_limit: Annotated[
        int,
        Setting(
            "The number of appends of metadata that may follow, at the controller, one that is not committed yet; "
            "requests that come then are sent back at once, and their senders try again.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1000

    metadata_changes_kept: Annotated[
        int,
        Setting(
            "The number of changes of metadata that the controller keeps in memory for nodes that follow. A node that "
            "is further behind is sent all of the metadata.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1000

    metadata_max_wait_ms: Annotated[
        int,
        Setting(
            "How long the controller lets a node wait for a change of the metadata before it answers that there is "
            "none.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 30_000

    def __post_init__(self) -> None:
        check_ranges(self)
