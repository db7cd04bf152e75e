"""What a request leads to: changes to be logged first, and what is said and done once they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from eagleray.broker.controller.changes import Change
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    Answer,
    ChangeIsr,
    CreateTopics,
    DeleteTopics,
    DrainAnswered,
    DrainNodes,
    ElectLeaders,
    GrowTopic,
    IsrChanged,
    NodeRegistered,
    PartitionResult,
    PartitionsAnswered,
    PlanAnswered,
    PlanNodes,
    ProducerIdsReserved,
    ReassignPartitions,
    RegisterNode,
    ReserveProducerIds,
    StartNodes,
    StopNodes,
    TopicResult,
    TopicsAnswered,
)
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.replication.events import IsrAnswered
from eagleray.protocol.errors import ErrorCode

Name = TypeVar("Name", bound=Hashable)
TopicRequest: TypeAlias = CreateTopics | DeleteTopics | GrowTopic | AlterTopicConfigs
Refusable: TypeAlias = (
    PlanNodes
    | RegisterNode
    | ChangeIsr
    | ReserveProducerIds
    | ReassignPartitions
    | DrainNodes
    | ElectLeaders
    | TopicRequest
)
"""Every request that may change something, but for heartbeats: whether a node lives is not a matter of the log."""


class Refusal(NamedTuple):
    """Why something is refused."""

    error_code: ErrorCode
    message: str


class Decision(NamedTuple):
    """Changes that are logged together, and what follows when they are; without changes it follows at once."""

    answer: Callable[[MetadataImage], Answer] | None
    """Says how to answer, given the image that the changes have led to; None where no client has asked."""

    changes: tuple[Change, ...] = ()
    consequences: tuple[StartNodes | StopNodes, ...] = ()


def decide(answer: Answer, changes: Sequence[Change] = (), *consequences: StartNodes | StopNodes) -> Decision:
    """Decide with an answer that is known beforehand."""
    return Decision(lambda after: answer, tuple(changes), consequences)  # noqa: ARG005 - it depends on no image


def refuse(request: Refusable, error_code: ErrorCode, message: str | None = None) -> Decision:
    """Change nothing, and say why."""
    return decide(refusal_of(request, error_code, message))


def refusal_of(request: Refusable, error_code: ErrorCode, message: str | None = None) -> Answer:
    """Return the answer that refuses a whole request."""
    refusal = _REFUSALS.get(type(request))
    if refusal is not None:
        return refusal(request, error_code, message)
    assert isinstance(request, TopicRequest)
    results = (TopicResult(name, error_code, message) for name in names_in(request))
    return TopicsAnswered(request.request_id, tuple(results))


def _refused_isr(request: ChangeIsr, error_code: ErrorCode, message: str | None) -> IsrChanged:  # noqa: ARG001
    """Say nothing about the partition: the proposal has not been judged, and its leader has to make it again.

    Were it taken for refused, the leader would count on a set that another copy of the proposal may still change.
    """
    proposal = request.proposal
    return IsrChanged(request.request_id, IsrAnswered(proposal.partition, error_code, proposal.partition_epoch))


def _refused_moves(request: ReassignPartitions, error_code: ErrorCode, message: str | None) -> PartitionsAnswered:
    partitions = dict.fromkeys(move.partition for move in request.moves)
    results = (PartitionResult(partition, error_code, message) for partition in partitions)
    return PartitionsAnswered(request.request_id, tuple(results), error_code)


def _refused_elections(request: ElectLeaders, error_code: ErrorCode, message: str | None) -> PartitionsAnswered:
    partitions = dict.fromkeys(request.partitions or ())
    results = (PartitionResult(partition, error_code, message) for partition in partitions)
    return PartitionsAnswered(request.request_id, tuple(results), error_code)


_REFUSALS: Final[dict[type, Callable[[Any, ErrorCode, str | None], Answer]]] = {
    PlanNodes: lambda request, code, message: PlanAnswered(request.request_id, code, message),
    RegisterNode: lambda request, code, message: NodeRegistered(request.request_id, code, None, message),
    ChangeIsr: _refused_isr,
    ReserveProducerIds: lambda request, code, message: ProducerIdsReserved(request.request_id, code),  # noqa: ARG005
    ReassignPartitions: _refused_moves,
    ElectLeaders: _refused_elections,
    DrainNodes: lambda request, code, message: DrainAnswered(request.request_id, code, message),
}


def names_in(request: TopicRequest) -> list[str]:
    """Return the names that a request is about, each once, in the order in which they first occur."""
    if isinstance(request, CreateTopics):
        return list(dict.fromkeys(topic.name for topic in request.topics))
    return list(dict.fromkeys(request.names)) if isinstance(request, DeleteTopics) else [request.name]


def repeated(names: Iterable[Name]) -> set[Name]:
    """Return the names that occur more than once."""
    return {name for name, times in Counter(names).items() if times > 1}
