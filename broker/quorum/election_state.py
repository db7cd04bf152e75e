"""What a voter must never forget."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.filesystem import FileSystem, write_atomically


class ElectionState(msgspec.Struct, frozen=True):
    """The term that a voter is in, and the candidate that it has voted for in it."""

    term: int = 0
    voted_for: int = NO_NODE
    incarnation: int = 0
    """Which life of the voter this is; they ascend, and what was meant for an earlier one is not for this one."""

    is_whole: bool = True
    """Whether the log has everything that the voter has acknowledged, and the rest of this all that it has voted.
    While it has not, the voter's vote counts only where all vote alike.
    """


NO_ELECTION_STATE: Final = ElectionState(is_whole=False)
"""Of a voter that begins for the first time, or has another disk: it cannot tell which."""


def read_election_state(file_system: FileSystem, path: str) -> ElectionState:
    """Return what was written last; where there is nothing, `NO_ELECTION_STATE`."""
    if not file_system.exists(path):
        return NO_ELECTION_STATE
    return msgspec.json.decode(file_system.read_bytes(path), type=ElectionState)


def write_election_state(file_system: FileSystem, path: str, election: ElectionState) -> None:
    """Write the election state; it is on stable storage when this returns."""
    write_atomically(file_system, path, msgspec.json.encode(election))
