"""What a request leads to: changes, and what is said and done once the log has them for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from eagleray.broker.controller.events import Answer, Decidable, StartNodes, StopNodes
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.protocol.errors import ErrorCode

Name = TypeVar("Name", bound=Hashable)


class Refusal(NamedTuple):
    """Why something is refused."""

    error_code: ErrorCode
    message: str


class Decision(NamedTuple):
    """Changes that are logged together, and what is said and done once they are committed."""

    answer: Callable[[MetadataImage], Answer]
    """Says how to answer, given the image that the changes have led to."""

    changes: tuple[Change, ...] = ()
    consequences: tuple[StartNodes | StopNodes, ...] = ()


def decide(answer: Answer, changes: Sequence[Change] = (), *consequences: StartNodes | StopNodes) -> Decision:
    """Decide with an answer that is known beforehand."""
    return Decision(lambda after: answer, tuple(changes), consequences)  # noqa: ARG005 - it depends on no image


def refuse(request: Decidable, error_code: ErrorCode, message: str | None = None) -> Decision:
    """Change nothing, and say why."""
    return decide(request.refused(error_code, message))


def repeated(names: Iterable[Name]) -> set[Name]:
    """Return the names that occur more than once."""
    return {name for name, times in Counter(names).items() if times > 1}
