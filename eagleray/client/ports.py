"""What a client needs of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from eagleray.actors.lanes.link import Fields, Reply, RequestType
from eagleray.broker.controller.nodes import NodeRegistration

OnReply: TypeAlias = Callable[[Reply | None], None]
"""Takes the reply, or None where there is none: the request may or may not have been carried out.

With `Peers.hears_malformed` it may be given a `Malformed`, too.
"""


class Peers(Protocol):
    """The nodes of a cluster, whichever lane leads there."""

    on_silence: Callable[[], None] | None
    """Called now and then while a node lets somebody wait for long."""

    hears_malformed: bool
    """Whether a question that cannot be carried is answered with `Malformed`, and not with None."""

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

        `on_reply` is called once, on the loop, and never from within `ask`; None where nobody waits for an answer.
        """

    def learn(self, nodes: Mapping[int, NodeRegistration], /) -> None:
        """Take note of where nodes can be reached."""

    def why_unreachable(self, node_id: int, /) -> str | None:
        """Say which port of a node that runs cannot be reached from here, and why; None where that is not so."""

    def forget(self, node_ids: Iterable[int], /) -> None:
        """Answer whoever waits for nodes that are gone."""


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""


class Watched(Protocol):
    """Somebody who waits for answers and wants to know when time passes."""

    is_watched: bool

    def tick(self, now_ms: int) -> bool:
        """Look for what has waited too long; return whether there is still something to wait for."""


class Drainable(Protocol):
    """Somebody who gathers work during a turn of the loop, to do it at the end of the turn."""

    def drain(self) -> None:
        """Do the work."""
