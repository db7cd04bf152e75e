"""The names of the files in a partition's directory, as Kafka writes them."""

from __future__ import annotations

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"

# A compacted segment is first written under `.cleaned`; renaming its log to `.swap` decides that it replaces
# the segments it was made from.
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

# A partition's whole directory is renamed so before it is removed: `orders-0.ID-delete`.
DELETE_SUFFIX = "-delete"
LONGEST_NAME = 255

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Ours, which Kafka's tools pass over: what the indexes of a closed segment have to hold.
CHECKSUMS_SUFFIX = ".checksums"
INDEX_FILE_SUFFIXES = (*INDEX_SUFFIXES, CHECKSUMS_SUFFIX)

# Ours too: what recovery has cut off a log, which is no part of it any more.
TORN_SUFFIX = ".torn"
CUT_SUFFIX = ".cut"

# And what is left, empty, of segments that were deleted while the disk had no room for a checkpoint: all below the
# offset in its name is deleted.
DELETED_SUFFIX = ".deleted"

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
EPOCH_CHECKSUM_FILE = "leader-epoch-checkpoint.checksum"
CHECKPOINT_FILE = "partition-checkpoint"
"""Of odd generations; `broker.generations` says how those of even ones are called."""
BOOKMARK_FILE = "segment-bookmark"

RECOVERY_POINT_FILE = "recovery-point"

# A person writes it: the offset behind which the loss of everything is accepted.
ACCEPT_LOSS_FILE = "accept-loss"


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of one file of the segment that starts at `base_offset`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def deleted_directory(name: str, unique: str) -> str:
    """Return the name of a partition's directory that waits to be removed, as Kafka makes it."""
    suffix = f".{unique}{DELETE_SUFFIX}"
    return name[: LONGEST_NAME - len(suffix)] + suffix


def base_offset_of(name: str) -> int | None:
    """Return the offset that a segment's or snapshot's file name starts with, if it does."""
    digits = name.split(".", 1)[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None
