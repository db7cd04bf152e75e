"""How a person accepts that the end of a log is lost, where no replica has it: by a file that names the offset.

`eagleray storage repair` writes it. It is asked for where the log says that it is damaged, and nothing else is done
about that before. A file that names another offset is of another damage, and counts for nothing.
"""

from __future__ import annotations

import shlex

from eagleray.broker.checked_file import count_in
from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.log import names

_CHECKPOINT = "checkpoint"


def accepted_offset(file_system: FileSystem, directory: str) -> int | None:
    """Return the offset from which on a person has given up the log; None where there is no such word."""
    path = f"{directory}/{names.ACCEPT_LOSS_FILE}"
    if not file_system.exists(path):
        return None
    return count_in(file_system.read_bytes(path))


def is_checkpoint_given_up(file_system: FileSystem, directory: str) -> bool:
    """Whether a person has given up what the checkpoint said: up to where records were deleted, and replicated."""
    path = f"{directory}/{names.ACCEPT_LOSS_FILE}"
    return file_system.exists(path) and file_system.read_bytes(path).strip() == _CHECKPOINT.encode()


def forget_accepted(file_system: FileSystem, directory: str) -> None:
    """Remove the word, now that it was acted on."""
    file_system.remove(f"{directory}/{names.ACCEPT_LOSS_FILE}")
    file_system.flush_directory(directory)


def accept_loss(file_system: FileSystem, directory: str, offset: int | None) -> None:
    """Write the word of a person: everything from an offset on is given up; None: what the checkpoint said."""
    word = _CHECKPOINT if offset is None else str(offset)
    write_atomically(file_system, f"{directory}/{names.ACCEPT_LOSS_FILE}", f"{word}\n".encode())


def how_to_accept(directory: str, offset: int) -> str:
    """What a person is told to do who wants the partition back without what is lost."""
    return (
        f"bring a good copy back, or accept the loss of everything from offset {offset} on: {_command(directory)} says "
        "what that means, and does it with --yes"
    )


def how_to_give_up_checkpoint(directory: str) -> str:
    """What a person is told to do where all checkpoints of a log are damaged."""
    return (
        "bring a good copy back, or have the log read anew, in which records that were deleted on request may come "
        f"back: {_command(directory)} says what that means, and does it with --yes"
    )


def _command(directory: str) -> str:
    data_dir, _, name = directory.rpartition("/")
    data_dir = data_dir.rpartition("/")[0]
    return f"`eagleray storage repair {shlex.quote(data_dir)} --partition {shlex.quote(name)} --accept-loss`"
