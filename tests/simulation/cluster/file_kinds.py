"""Every kind of file that a node keeps, and every way in which a disk may give back something else than was written.

One table: which of the two is struck, and what has to follow. What is not in it cannot be told from the truth: see
`docs/guarantees.md`.
"""

import enum
import re
from collections.abc import Iterable

import msgspec

from eagleray.actors.roles.metadata_quorum import METADATA_PARTITION


class Way(enum.Enum):
    """What a disk gives back."""

    ROT = "rotten"
    LOSS = "lost"
    CUT = "cut short"
    SWAP = "swapped"
    OLD = "of earlier"


SERVED = "served"
"""The node goes on by itself: with another copy, with what it makes anew, or with what the other replicas have."""

HELD = "held"
"""The node changes nothing, and serves what does not need the file, until a person has put it back. Where the disk has
struck the copy that does not count, the node may go on by itself."""

OPEN_SEGMENT = "open segment"
EPOCH_OF_BATCH = "leader epoch of a batch"
NOTED_END = "noted end of an open segment"
"""A segment that ends before an offset up to which a file beside it says that the log went."""

_PARTITION = rf"^/data/logs/(?!{METADATA_PARTITION}/)[^/]+-\d+/"
_METADATA = rf"^/data/logs/{METADATA_PARTITION}/"
_NODE = r"^/data/nodes/\d+"


class FileKind(msgspec.Struct, frozen=True):
    """Files that say the same of the same thing."""

    name: str
    pattern: str
    ways: dict[Way, str]
    """What follows."""

    takes_all: bool = False
    """Whether all files of a folder are struck at once, as both generations of a checkpoint are."""

    is_of_voters: bool = False
    """Whether the other two voters have to be whole."""

    is_vote: bool = False
    """Whether a voter forgets by it what it has voted."""

    def matches(self, path: str) -> bool:
        """Whether a file is of this kind."""
        return re.search(self.pattern + "$", path) is not None

    def groups(self, paths: Iterable[str]) -> list[list[str]]:
        """What is struck together, of these files."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            if self.matches(path):
                folders.setdefault(path.rpartition("/")[0] if self.takes_all else path, []).append(path)
        return list(folders.values())


def _all(sequel: str, *but: Way, **others: str) -> dict[Way, str]:
    return {way: others.get(way.name.lower(), sequel) for way in Way if way not in but}


FILE_KINDS = (
    # Identities are written once.
    FileKind("identity", _NODE + r"\.identity(\.2)?", _all(SERVED, Way.OLD, swap=HELD)),
    FileKind("both identities", _NODE + r"\.identity(\.2)?", _all(HELD, Way.OLD, loss=SERVED), takes_all=True),
    FileKind("incarnation", _NODE + r"\.life(\.2)?", _all(SERVED)),
    FileKind("both incarnations", _NODE + r"\.life(\.2)?", _all(SERVED), takes_all=True),
    # Of an old note, or that of another node, the node knows no better; its clocks agree in these worlds.
    FileKind("clock", _NODE + r"\.clock", _all(SERVED)),
    FileKind("image", _NODE + r"\.image(\.2)?", _all(SERVED)),
    FileKind("position", _NODE + r"\.position", _all(SERVED, rot=HELD, cut=HELD)),
    FileKind(
        "images and position", _NODE + r"\.(image(\.2)?|position)", _all(SERVED, rot=HELD, cut=HELD), takes_all=True
    ),
    # An old vote, or that of another voter, has nothing by which it could be told from the newest.
    FileKind(
        "election state",
        _METADATA + r"quorum-state(\.2)?",
        _all(SERVED, Way.SWAP, Way.OLD),
        is_of_voters=True,
        is_vote=True,
    ),
    FileKind(
        "both election states",
        _METADATA + r"quorum-state(\.2)?",
        _all(SERVED, Way.SWAP, Way.OLD),
        takes_all=True,
        is_of_voters=True,
        is_vote=True,
    ),
    FileKind("metadata log", _METADATA + r"\d{20}\.log", _all(SERVED), is_of_voters=True),
    FileKind(
        "checkpoint of the metadata log",
        _METADATA + r"(partition-checkpoint(\.2)?|leader-epoch-checkpoint(\.checksum)?|recovery-point)",
        _all(SERVED, Way.SWAP),
        is_of_voters=True,
    ),
    # Its checkpoint, where there is one yet, says the same.
    FileKind("partition.metadata", _PARTITION + r"partition\.metadata", _all(HELD, Way.OLD)),
    FileKind("checkpoint", _PARTITION + r"partition-checkpoint(\.2)?", _all(SERVED, swap=HELD)),
    FileKind(
        "both checkpoints", _PARTITION + r"partition-checkpoint(\.2)?", _all(SERVED, Way.OLD, swap=HELD), takes_all=True
    ),
    FileKind("recovery point", _PARTITION + r"recovery-point", _all(SERVED)),
    FileKind("bookmark", _PARTITION + r"segment-bookmark", _all(SERVED)),
    FileKind("leader epochs", _PARTITION + r"leader-epoch-checkpoint(\.checksum)?", _all(SERVED)),
    # Kafka's snapshots say of no partition that they are its, and are never written again.
    FileKind("snapshot", _PARTITION + r"\d{20}\.snapshot", _all(SERVED, Way.SWAP, Way.OLD)),
    FileKind("index", _PARTITION + r"\d{20}\.(index|timeindex|txnindex|checksums)", _all(SERVED)),
    # Bits of them rot in the worlds without damaged files, too. Of two states of a segment either may be the newest,
    # and in a log that is compacted a gap is none.
    FileKind("closed segment", r"^/data/logs/[^_][^/]*-\d+/\d{20}\.log", _all(SERVED, Way.ROT, Way.OLD)),
    # Not its last batch, which may pass for a torn write; where it ends earlier is not always known in the same boot.
    FileKind(OPEN_SEGMENT, _PARTITION + r"\d{20}\.log", {Way.ROT: SERVED}),
    # No checksum covers it. What is below a bookmark is not read again, so that goes, too.
    FileKind(EPOCH_OF_BATCH, _PARTITION + r"\d{20}\.log", {Way.ROT: SERVED}),
    FileKind(NOTED_END, _PARTITION + r"\d{20}\.log", {Way.CUT: SERVED}),
)

CELLS = tuple((kind, way) for way in Way for kind in FILE_KINDS if way in kind.ways)


def cell_name(kind: FileKind, way: Way) -> str:
    """How a cell of the table is counted."""
    return f"{kind.name} {way.value}"
