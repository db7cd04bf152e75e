"""What a client needs of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from eagleray.actors.lanes.link import Fields, Reply, RequestType
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.metadata.nodes import NodeRegistration

OnReply: TypeAlias = Callable[[Reply | None], None]
"""Takes the reply, or None where there is none: the request may or may not have been carried out.

With `Peers.hears_malformed` it may be given a `Malformed`, too.
"""


class Asks(Protocol):
    """What asks nodes."""

    def ask(
        self,
        node_id: int,
        on_reply: OnReply[Reply] | None,
        message_type: RequestType[Fields, Reply],
        /,
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Send a request, made of its type and the fields behind the request id.

        `on_reply` is called once, on the loop, and never from within `ask`; where it is None, the answer is dropped.
        """


class Peers(Asks, Protocol):
    """The nodes of a cluster, whichever lane leads there."""

    turn: Turn
    """In which what is asked goes out together."""

    on_silence: Callable[[], None] | None
    """Called now and then while a node keeps a question waiting for long."""

    hears_malformed: bool
    """Whether a question that cannot be carried is answered with `Malformed`, and not with None."""

    def learn(self, nodes: Mapping[int, NodeRegistration], /) -> None:
        """Take note of where nodes can be reached."""

    def why_unreachable(self, node_id: int, /) -> str | None:
        """Say which port of a node that runs cannot be reached from here, and why; None where that is not so."""

    def forget(self, node_ids: Iterable[int], /) -> None:
        """Answer the questions to nodes that are gone with None."""


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""


class Watched(Protocol):
    """A client that waits for answers and wants to know when time passes."""

    is_watched: bool

    def tick(self, now_ms: int) -> bool:
        """Look for what has waited too long; return whether there is still something to wait for."""
