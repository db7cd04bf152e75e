"""Names of the files of a partition's directory, as Kafka writes them."""

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

INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Ours, which Kafka's tools pass over: what the indexes of a closed segment have to hold.
CHECKSUMS_SUFFIX = ".checksums"
INDEX_FILE_SUFFIXES = (*INDEX_SUFFIXES, CHECKSUMS_SUFFIX)

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
EPOCH_CHECKSUM_FILE = "leader-epoch-checkpoint.checksum"
CHECKPOINT_FILE = "partition-checkpoint"
BOOKMARK_FILE = "segment-bookmark"


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    """Return the path of one file of the segment that starts at `base_offset`."""
    return f"{directory}/{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Return the offset that a segment's or snapshot's file name starts with, if it does."""
    digits = name.split(".", 1)[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None
