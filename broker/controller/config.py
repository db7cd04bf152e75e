"""Settings of the controller, under Kafka's own names where Kafka has one."""

from __future__ import annotations

import msgspec


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What new topics are like, and how much the controller keeps for those who wait or follow."""

    num_partitions: int = 1
    """How many partitions a topic has whose creator names no number."""

    transaction_state_log_num_partitions: int = 50
    offsets_topic_num_partitions: int = 50
    """Names are hashed over the partitions of the internal topics, so their number is fixed for a cluster's life."""

    default_replication_factor: int = 1
    """How many replicas the partitions of a topic have whose creator names no number."""

    min_insync_replicas: int = 1
    """How many replicas of a new topic have to be in sync, where its creator says nothing of it."""

    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    offsets_topic_replication_factor: int = 3
    """Internal topics have no more replicas than there are machines for them when they are made."""

    auto_leader_rebalance_enable: bool = True
    """Whether the first replicas lead again by themselves, after they were away."""

    leader_imbalance_check_interval_seconds: int = 300
    """How often to look for partitions that another replica leads than the first."""

    dedicated_nodes_limit: int = 64
    """How many partitions may have a node of their own: each is a process."""

    queued_requests_limit: int = 1000
    """How many requests may wait for the append under way; any more are sent back at once."""

    metadata_changes_kept: int = 1000
    """How many changes a follower may be behind before it is sent the whole image."""

    metadata_max_wait_ms: int = 30_000
    """How long a follower may wait for news at most, whatever it asks for."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            least = 1 if any(word in name for word in ("partitions", "replica", "isr", "interval")) else 0
            if getattr(self, name) < least:
                raise ValueError(f"{name} has to be {least} or more")
