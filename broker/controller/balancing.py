"""Leaders where they are preferred: when somebody asks, and by itself when a node is back."""

from __future__ import annotations

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.events import ElectLeaders, PartitionResult, PartitionsAnswered
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.replication.controlling import ReplicationController
from eagleray.broker.replication.electing import partitions_of, wants_preferred
from eagleray.protocol.errors import ErrorCode


def elect_leaders(
    request: ElectLeaders, image: MetadataImage, replication: ReplicationController
) -> PartitionsAnswered:
    """Ask leaders to hand over to the first replicas; nothing is logged before they have."""
    partitions = request.partitions
    if partitions is None:
        partitions = tuple(
            partition for partition, state, _ in partitions_of(image) if state.leader != state.replicas[0]
        )
    results = (
        PartitionResult(partition, code, _MESSAGES.get(code))
        for partition in dict.fromkeys(partitions)
        for code in (replication.elect_preferred(partition, image),)
    )
    return PartitionsAnswered(request.request_id, tuple(results))


_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.ELECTION_NOT_NEEDED: "the first replica leads already",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the first replica is not there, or not in sync",
}


class LeaderBalance:
    """Has the preferred replicas lead again some time after they have come back.

    Owns: when it looked last. Persists: nothing; a controller that begins anew waits for a whole interval.
    """

    def __init__(self, config: ControllerConfig, now_ms: int) -> None:
        self._is_enabled = config.auto_leader_rebalance_enable
        self._interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        self._next_ms = now_ms + self._interval_ms

    def restore(self, image: MetadataImage, replication: ReplicationController, now_ms: int) -> None:
        """If it is time, ask the leaders to hand over that are not the preferred ones."""
        if not self._is_enabled or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        for partition, state, _ in partitions_of(image):
            if wants_preferred(state, image.nodes):
                replication.elect_preferred(partition, image)
