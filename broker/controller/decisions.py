"""What a request leads to: changes to be logged first, and what is said and done once they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from eagleray.broker.controller.changes import Change
from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    Answer,
    CreateTopics,
    Decidable,
    DeleteTopics,
    GrowTopic,
    NodeRegistered,
    PlanAnswered,
    PlanNodes,
    RegisterNode,
    StartNodes,
    StopNodes,
    TopicResult,
    TopicsAnswered,
)
from eagleray.broker.controller.image import MetadataImage
from eagleray.protocol.errors import ErrorCode

Name = TypeVar("Name", bound=Hashable)
TopicRequest: TypeAlias = CreateTopics | DeleteTopics | GrowTopic | AlterTopicConfigs


class Decision(NamedTuple):
    """Changes that are logged together, and what follows when they are; without changes it follows at once."""

    answer: Callable[[MetadataImage], Answer]
    """Says how to answer, given the image that the changes have led to."""

    changes: tuple[Change, ...] = ()
    consequences: tuple[StartNodes | StopNodes, ...] = ()


def decide(answer: Answer, changes: Sequence[Change] = (), *consequences: StartNodes | StopNodes) -> Decision:
    """Decide with an answer that is known beforehand."""
    return Decision(lambda after: answer, tuple(changes), consequences)  # noqa: ARG005 - it depends on no image


def refuse(request: Decidable, error_code: ErrorCode, message: str | None = None) -> Decision:
    """Change nothing, and say why."""
    return decide(refusal_of(request, error_code, message))


def refusal_of(request: Decidable, error_code: ErrorCode, message: str | None = None) -> Answer:
    """Return the answer that refuses a whole request."""
    if isinstance(request, PlanNodes):
        return PlanAnswered(request.request_id, error_code, message)
    if isinstance(request, RegisterNode):
        return NodeRegistered(request.request_id, error_code, None, message)
    results = (TopicResult(name, error_code, message) for name in names_in(request))
    return TopicsAnswered(request.request_id, tuple(results))


def names_in(request: TopicRequest) -> list[str]:
    """Return the names that a request is about, each once, in the order in which they first occur."""
    if isinstance(request, CreateTopics):
        return list(dict.fromkeys(topic.name for topic in request.topics))
    return list(dict.fromkeys(request.names)) if isinstance(request, DeleteTopics) else [request.name]


def repeated(names: Iterable[Name]) -> set[Name]:
    """Return the names that occur more than once."""
    return {name for name, times in Counter(names).items() if times > 1}
