"""The state of a voter that must survive a restart (Raft's currentTerm and votedFor, KRaft's quorum-state file)."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.checked_file import FileDamaged, decode_checked_or_older, encode_checked
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import read_generations, write_generation
from eagleray.broker.metadata.nodes import NO_NODE


class ElectionState(msgspec.Struct, frozen=True):
    """The term that a voter is in, and the candidate that it has voted for in it."""

    term: int = 0
    voted_for: int = NO_NODE
    incarnation: int = 0
    """Which incarnation of the voter this is; they ascend, and messages for an earlier one are ignored."""

    is_whole: bool = True
    """Whether the log has everything that the voter has acknowledged, and this state all that it has voted. Until then
    the voter's vote counts only where all vote alike."""

    committed: int = 0
    """Everything before this offset was committed, and on this disk. A log that ends before it has lost some."""

    sequence: int = 0
    """The number of the generation. What was written before there were two has none."""

    @classmethod
    def decode(cls, data: bytes) -> ElectionState | None:
        """Read the file; None where it is damaged. What was written before there were checksums is read as well."""
        try:
            return decode_checked_or_older(data, cls)
        except FileDamaged:
            return None


NO_ELECTION_STATE: Final = ElectionState(is_whole=False)
"""The state of a voter that starts for the first time, or has another disk: it cannot tell which."""


def read_election_state(file_system: FileSystem, path: str) -> ElectionState:
    """Return what was written last; where there is nothing, `NO_ELECTION_STATE`. Raises FileDamaged.

    Where one of the two generations is damaged, it may have had another vote: the voter is not whole.
    """
    found = read_generations(file_system, path, ElectionState.decode)
    if found.newest is None:
        if found.damaged:
            raise FileDamaged("its checksum does not match")
        return NO_ELECTION_STATE
    return msgspec.structs.replace(found.newest, is_whole=found.newest.is_whole and not found.damaged)


def write_election_state(file_system: FileSystem, path: str, election: ElectionState) -> None:
    """Write the election state, whose number is above the last; it is on stable storage when this returns."""
    write_generation(file_system, path, election.sequence, encode_checked(election))
