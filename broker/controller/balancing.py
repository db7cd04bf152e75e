"""Leaders where they are preferred: when a client asks, and by itself when a node is back."""

from __future__ import annotations

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.decisions import Decision, decide
from eagleray.broker.controller.elections import Rules, changed, choose_leader, led_by, partitions_of, wants_preferred
from eagleray.broker.controller.reassignment_progress import completed
from eagleray.broker.controller.replica_events import ElectLeaders, PartitionResult, PartitionsAnswered
from eagleray.broker.controller.replication_control import ReplicationControl
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode


def elect_leaders(request: ElectLeaders, image: MetadataImage, replication: ReplicationControl) -> Decision:
    """Have the first replicas lead; in an unclean election, any living replica of a partition without a leader."""
    partitions = request.partitions
    if partitions is None:
        partitions = tuple(
            partition for partition, state, _ in partitions_of(image) if _is_meant(state, is_unclean=request.is_unclean)
        )
    results: list[PartitionResult] = []
    elected: list[tuple[TopicPartition, PartitionImage]] = []
    for partition in dict.fromkeys(partitions):
        if request.is_unclean:
            found = _elect_unclean(partition, image)
            code = found if isinstance(found, ErrorCode) else ErrorCode.NONE
            elected += () if isinstance(found, ErrorCode) else [(partition, found)]
            messages = _UNCLEAN_MESSAGES
        else:
            # The leader of now is asked to hand over; nothing is logged before it has.
            code, messages = replication.elect_preferred(partition, image), _MESSAGES
        results.append(PartitionResult(partition, code, messages.get(code)))
    return decide(PartitionsAnswered(request.request_id, tuple(results)), changed(elected))


def _is_meant(state: PartitionImage, *, is_unclean: bool) -> bool:
    return state.leader == NO_NODE if is_unclean else state.leader != state.replicas[0]


def _elect_unclean(partition: TopicPartition, image: MetadataImage) -> PartitionImage | ErrorCode:
    state = image.find(partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if state.leader != NO_NODE:
        return ErrorCode.ELECTION_NOT_NEEDED
    leader, isr = choose_leader(state, image.nodes, _UNCLEAN)
    return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if leader == NO_NODE else completed(led_by(state, leader, isr))


_UNCLEAN = Rules(unclean_leader_election=True)
_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.ELECTION_NOT_NEEDED: "the first replica leads already",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the first replica is not there, or not in sync",
}
_UNCLEAN_MESSAGES = _MESSAGES | {
    ErrorCode.ELECTION_NOT_NEEDED: "the partition has a leader",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "none of its replicas is there",
}


class LeaderBalance:
    """Has the preferred replicas lead again some time after they have come back.

    Owns: when it looked last. Persists: nothing; a controller that begins anew waits for a whole interval.
    """

    def __init__(self, config: ControllerConfig, now_ms: int) -> None:
        self._is_enabled = config.auto_leader_rebalance_enable
        self._interval_ms = config.leader_imbalance_check_interval_seconds * 1000
        self._next_ms = now_ms + self._interval_ms

    @property
    def next_due_ms(self) -> int:
        """When it looks again."""
        return self._next_ms if self._is_enabled else NEVER_MS

    def restore(self, image: MetadataImage, replication: ReplicationControl, now_ms: int) -> None:
        """If it is time, ask the leaders to hand over that are not the preferred ones."""
        if not self._is_enabled or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._interval_ms
        for partition, state, _ in partitions_of(image):
            if wants_preferred(state, image.nodes):
                replication.elect_preferred(partition, image)
