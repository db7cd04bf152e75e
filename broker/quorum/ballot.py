"""What a voter must never forget."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.filesystem import FileSystem, write_atomically


class Ballot(msgspec.Struct, frozen=True):
    """The term that a voter is in, and whom it has voted for in it."""

    term: int = 0
    voted_for: int = NO_NODE
    incarnation: int = 0
    """How often the voter has begun; what was meant for an earlier life is not for this one."""

    is_whole: bool = True
    """Whether the log has everything that the voter has acknowledged. While it has not, the voter has no vote."""


NO_BALLOT: Final = Ballot()


def read_ballot(file_system: FileSystem, path: str) -> Ballot:
    """Return what was written last; where nothing ever was, the ballot of somebody who has never voted."""
    if not file_system.exists(path):
        return NO_BALLOT
    return msgspec.json.decode(file_system.read_bytes(path), type=Ballot)


def write_ballot(file_system: FileSystem, path: str, ballot: Ballot) -> None:
    """Write the ballot; it is on stable storage when this returns."""
    write_atomically(file_system, path, msgspec.json.encode(ballot))
