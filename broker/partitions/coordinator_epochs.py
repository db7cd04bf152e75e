"""The epochs of transaction coordinators that markers may carry: none is above what the metadata know."""

from __future__ import annotations

from collections.abc import Callable

from eagleray.broker.identities import NO_EPOCH
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.protocol.errors import ErrorCode


def newest_coordinator_epoch(image: MetadataImage) -> int:
    """Return the newest epoch that a coordinator has had, of whichever partition of the transaction log."""
    topic = image.topics.get(TRANSACTION_STATE)
    return NO_EPOCH if topic is None else max(partition.leader_epoch for partition in topic.partitions)


class CoordinatorEpochs:
    """Refuses markers of coordinators that cannot exist yet, because they would fence all those that do.

    Owns: the newest epoch that is known. Epochs never fall, so the metadata are looked at only for a marker beyond it.
    Such a marker has to come again: its coordinator may know newer metadata than this node.
    """

    __slots__ = ("_newest", "_read")

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._newest = NO_EPOCH

    def refusal_of(self, marker: Marker) -> ErrorCode:
        """Say why a marker may not be written now, or NONE."""
        if marker.coordinator_epoch > self._newest:
            self._newest = self._read()
            if marker.coordinator_epoch > self._newest:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE
