"""The offsets of a commit request, and the outcome of each in the shape of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagleray.actors.kafka_server.partitions import topic_name
from eagleray.broker.groups.events import OffsetsCommitted, OffsetToCommit
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.protocol.errors import ErrorCode


class RequestedOffsets:
    """The topics of an OffsetCommit or a TxnOffsetCommit, which look alike.

    Offsets for what does not exist are refused here; `offsets` has the others, for the group's coordinator.
    """

    __slots__ = ("_refusals", "_topics", "offsets")

    def __init__(self, image: MetadataImage, topics: Iterable[Any]) -> None:
        self._topics = topics
        self._refusals: list[ErrorCode] = []
        offsets: list[OffsetToCommit] = []
        for topic in topics:
            name = topic_name(image, topic.name, topic.topic_id)
            for wanted in topic.partitions:
                partition = TopicPartition(name or "", wanted.partition_index)
                refusal = _refusal(image, name, partition)
                self._refusals.append(refusal)
                if refusal is ErrorCode.NONE:
                    offsets.append(
                        OffsetToCommit(
                            partition,
                            wanted.committed_offset,
                            wanted.committed_leader_epoch,
                            wanted.committed_metadata or "",
                        )
                    )
        self.offsets = tuple(offsets)

    def outcomes(self, reply: OffsetsCommitted | None, say: Callable[[ErrorCode], ErrorCode]) -> list[ErrorCode]:
        """The outcome of each partition of the request, in its order; `say` translates a code for the request's
        version.
        """
        if reply is None:
            codes: Sequence[ErrorCode] = (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * len(self.offsets)
        else:
            codes = reply.partition_errors or (reply.error_code,) * len(self.offsets)
        committed = iter(codes)
        return [refusal if refusal is not ErrorCode.NONE else say(next(committed)) for refusal in self._refusals]

    def response(
        self, outcomes: Iterable[ErrorCode], topic_type: Callable[..., Any], partition_type: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """The topics of the response."""
        codes = iter(outcomes)
        return tuple(
            topic_type(
                topic.name,
                topic.topic_id,
                tuple(partition_type(wanted.partition_index, next(codes)) for wanted in topic.partitions),
            )
            for topic in self._topics
        )


def _refusal(image: MetadataImage, name: str | None, partition: TopicPartition) -> ErrorCode:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.NONE if image.find(partition) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def same_for_all(
    topics: Iterable[Any], error_code: ErrorCode, topic_type: Callable[..., Any], partition_type: Callable[..., Any]
) -> tuple[Any, ...]:
    """The topics of a response with the same code for every partition."""
    return tuple(
        topic_type(
            topic.name,
            topic.topic_id,
            tuple(partition_type(wanted.partition_index, error_code) for wanted in topic.partitions),
        )
        for topic in topics
    )
