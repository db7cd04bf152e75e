"""The checkpoint that an opening begins with: whose log it is, and how far it was flushed."""

from __future__ import annotations

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log.accepted_loss import forget_accepted, how_to_give_up_checkpoint, is_checkpoint_given_up
from eagleray.broker.log.checkpoint import Checkpoint, ReadCheckpoint, read_checkpoint, write_checkpoint
from eagleray.broker.log.errors import LogDamaged, LossNotAccepted
from eagleray.broker.log.flushing import with_recovery_point
from eagleray.broker.log.settling import Surroundings


def read_known_checkpoint(file_system: FileSystem, directory: str, surroundings: Surroundings) -> ReadCheckpoint:
    """Read the checkpoint of a log, with what was flushed since; LogDamaged where it is lost, or another's."""
    read = _with_identity(_read_checkpoint(file_system, directory), directory, surroundings)
    if not read.is_newest:
        return read
    known = with_recovery_point(file_system, directory, read.checkpoint)
    return msgspec.structs.replace(read, checkpoint=known)


def _with_identity(read: ReadCheckpoint, directory: str, surroundings: Surroundings) -> ReadCheckpoint:
    """Note whose log it is; LogDamaged where the checkpoint says that it is another's."""
    topic_id, noted = surroundings.topic_id.hex(), read.checkpoint
    is_others = bool(noted.topic_id and topic_id and noted.topic_id != topic_id)
    if is_others or (noted.partition >= 0 <= surroundings.partition != noted.partition):
        raise LogDamaged(
            f"{directory}: the checkpoint is that of partition {noted.partition} of topic id {noted.topic_id}; "
            f"expected partition {surroundings.partition} of {topic_id}; nothing was changed"
        )
    known = msgspec.structs.replace(
        noted,
        topic_id=topic_id or noted.topic_id,
        partition=surroundings.partition if surroundings.partition >= 0 else noted.partition,
    )
    return msgspec.structs.replace(read, checkpoint=known)


def _read_checkpoint(file_system: FileSystem, directory: str) -> ReadCheckpoint:
    """Read the checkpoint; where none can be read, and a person has given it up, begin with one that knows nothing."""
    try:
        return read_checkpoint(file_system, directory)
    except LogDamaged as error:
        if not is_checkpoint_given_up(file_system, directory):
            told = f"{error}; nothing was changed; {how_to_give_up_checkpoint(directory)}"
            raise LossNotAccepted(told, None) from error
    unknown = write_checkpoint(file_system, directory, Checkpoint())
    # Both generations, so that none of them is damaged any more.
    unknown = write_checkpoint(file_system, directory, unknown)
    forget_accepted(file_system, directory)
    return ReadCheckpoint(unknown, is_newest=False)
