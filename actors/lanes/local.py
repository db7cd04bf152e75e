"""The local lane: the node is in this process, and a question is a function call away."""

from __future__ import annotations

import asyncio

from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.sessions import Sessions
from eagleray.broker.messages import Message


class LocalSession:
    """A session of this process with itself; an answer is handed over as it comes, however long that takes.

    No question gets lost here, and some are meant to wait: a fetch for records, a member of a group for the others.
    """

    def __init__(self, sessions: Sessions, loop: asyncio.AbstractEventLoop) -> None:
        self.link = Link(loop, sessions.begin(self), sessions.receive, timeout_s=None)

    def answer(self, reply: Message) -> None:
        """Hand the answer to whoever asked."""
        self.link.received((reply,))

    def close(self) -> None:
        """Answer nobody any more."""
        self.link.break_off()
