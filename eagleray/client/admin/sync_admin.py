"""The blocking admin: the asyncio one, on a loop in the background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from eagleray.broker.controller.events import Reassignment
from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.events import TransactionDescription
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.admin.descriptions import (
    GroupOffset,
    HangingTransaction,
    NodeDescription,
    TopicConfigs,
    TopicDescription,
)
from eagleray.client.loop_thread import LoopThread
from eagleray.client.settings import IsolationLevel
from eagleray.client.types import OffsetAndMetadata, OffsetAndTimestamp


class Admin:
    """Creates, changes, describes and deletes what a cluster holds, for threads; see `AsyncAdmin`."""

    def __init__(self, thread: LoopThread, admin: AsyncAdmin) -> None:
        self._run = thread.run
        self._admin = admin

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | float | bool] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create a topic; -1 means the cluster's default. Replicas are on as many different machines."""
        self._run(
            self._admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                exist_ok=exist_ok,
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and everything in it."""
        self._run(self._admin.delete_topic(name))

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, this many in all."""
        self._run(self._admin.grow_topic(name, partitions))

    def alter_topic(self, name: str, changes: Mapping[str, str | float | bool | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        self._run(self._admin.alter_topic(name, changes))

    def list_topics(self, *, internal: bool = False) -> dict[str, int]:
        """Return the topics, each with its number of partitions."""
        return self._run(self._admin.list_topics(internal=internal))

    def describe_topic(self, name: str) -> TopicDescription:
        """Return a topic with where each of its partitions stands."""
        return self._run(self._admin.describe_topic(name))

    def describe_configs(self, topic: str) -> TopicConfigs:
        """Return every setting of a topic as it counts."""
        return self._run(self._admin.describe_configs(topic))

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int = 30_000
    ) -> dict[TopicPartition, int]:
        """Delete records before an offset of each partition (-1: all); return where the partitions begin then."""
        return self._run(self._admin.delete_records(before, timeout_ms=timeout_ms))

    def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offsets of timestamps: -1 the end, -2 the beginning, -3 the largest timestamp.

        With read_committed a partition ends at its last stable offset.
        """
        return self._run(self._admin.list_offsets(timestamps_ms, isolation))

    def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin to move partitions to these nodes, the preferred leader first; None takes a move back."""
        self._run(self._admin.reassign_partitions(targets))

    def list_reassignments(self, *partitions: TopicPartition) -> list[Reassignment]:
        """Return what is being moved, of some partitions or of all."""
        return self._run(self._admin.list_reassignments(*partitions))

    def elect_leaders(self, *partitions: TopicPartition, unclean: bool = False) -> list[TopicPartition]:
        """Have the first replica lead each partition, of some or of all; return those that another leads then."""
        return self._run(self._admin.elect_leaders(*partitions, unclean=unclean))

    def list_nodes(self) -> list[NodeDescription]:
        """Return the nodes of the cluster, whether they have come or not, and how much each has to do."""
        return self._run(self._admin.list_nodes())

    def drain_node(self, node: int | str) -> int:
        """Begin to move everything away from a node, or from all nodes of a machine; return how many partitions."""
        return self._run(self._admin.drain_node(node))

    def undrain_node(self, node: int | str) -> None:
        """Let a node, or all nodes of a machine, have replicas again."""
        self._run(self._admin.undrain_node(node))

    def kept_by(self, node: int | str) -> set[TopicPartition]:
        """Return the partitions that a node, or a machine, has replicas of."""
        return self._run(self._admin.kept_by(node))

    def list_groups(self) -> list[str]:
        """Return the groups that have committed offsets or members."""
        return self._run(self._admin.list_groups())

    def describe_group(self, group: str) -> list[GroupOffset]:
        """Return how far a group has come in each partition, and where the partition ends."""
        return self._run(self._admin.describe_group(group))

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Say how far a group has come, in the place of its consumers."""
        self._run(self._admin.alter_group_offsets(group, offsets))

    def delete_group_offsets(self, group: str, *partitions: TopicPartition) -> None:
        """Have a group forget how far it has come in partitions."""
        self._run(self._admin.delete_group_offsets(group, *partitions))

    def delete_group(self, group: str) -> None:
        """Have a group forgotten."""
        self._run(self._admin.delete_group(group))

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), older_than_ms: int = -1
    ) -> list[TransactionDescription]:
        """Return what coordinators know of transactional ids."""
        found = self._admin.list_transactions(states=states, producer_ids=producer_ids, older_than_ms=older_than_ms)
        return self._run(found)

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return where a transactional id stands."""
        return self._run(self._admin.describe_transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort what a transactional id has open, and fence its producer."""
        self._run(self._admin.abort_transaction(transactional_id))

    def find_hanging(self, topics: Iterable[str] = (), *, older_than_ms: int = 900_000) -> list[HangingTransaction]:
        """Return transactions that are open in partitions and unknown to every coordinator."""
        return self._run(self._admin.find_hanging(topics, older_than_ms=older_than_ms))

    def abort_hanging(self, hanging: HangingTransaction) -> None:
        """End a transaction that `find_hanging` has found."""
        self._run(self._admin.abort_hanging(hanging))

    def close(self) -> None:
        """Do nothing: an admin owns nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
