"""Where things are in a data directory, and which of them a running node uses."""

from __future__ import annotations

import fcntl
import glob
import os
import time
from typing import Final

from eagleray.actors.storage.disk import DirectoryLock, PartitionLocked
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.directories import partition_of
from eagleray.broker.metadata.topics import CLUSTER_METADATA

LOGS: Final = "logs"
NODES: Final = "nodes"
_MACHINES: Final = "machine-*"
_LOCK_ATTEMPTS: Final = 5
_BETWEEN_ATTEMPTS_S: Final = 0.1
METADATA_DIRECTORY: Final = str(TopicPartition(CLUSTER_METADATA, 0))


class DirectoryInUse(Exception):
    """A running node has open what was about to be changed; nothing was changed."""


class NoDataDirectory(Exception):
    """A path is not a data directory of Eagleray; the text says what was expected."""


def data_directories(path: str) -> list[str]:
    """Return the data directories at a path: itself, or those of the machines of a cluster that runs on one."""
    found = [path, *sorted(glob.glob(f"{glob.escape(path)}/{_MACHINES}"))]
    found = [each for each in found if os.path.isdir(f"{each}/{LOGS}") or os.path.isdir(f"{each}/{NODES}")]
    if not found:
        raise NoDataDirectory(
            f"{path} is no data directory: it has neither {LOGS}/ nor {NODES}/; expected the --data-dir that "
            "`eagleray start` was given, on a machine that has nodes"
        )
    return found


def partition_directories(data_dir: str) -> list[str]:
    """Return the names of all that lies where the directories of partitions are."""
    folder = f"{data_dir}/{LOGS}"
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def find_partition(path: str, name: str) -> str:
    """Return the data directory that has a partition; NoDataDirectory where none, or more than one, has it."""
    if partition_of(name) is None:
        raise NoDataDirectory(f"--partition is {name!r}; expected TOPIC-NUMBER, for example orders-0")
    having = [each for each in data_directories(path) if os.path.isdir(f"{each}/{LOGS}/{name}")]
    if len(having) > 1:
        raise NoDataDirectory(f"{', '.join(having)} have {name}; say which of them is meant as DIR")
    if not having:
        raise NoDataDirectory(f"{path} has no directory {LOGS}/{name}; `eagleray storage verify {path}` lists them")
    return having[0]


def lock_partition(data_dir: str, name: str) -> DirectoryLock:
    """Take the lock that a node takes to open a partition; DirectoryInUse where a node has it.

    A node that tries again and again to open a partition that is offline has it for moments.
    """
    for _ in range(_LOCK_ATTEMPTS):
        try:
            return DirectoryLock(_lock_path(data_dir, name))
        except PartitionLocked:
            time.sleep(_BETWEEN_ATTEMPTS_S)
    raise DirectoryInUse(
        f"a running node has {name} open, by the lock {_lock_path(data_dir, name)}; nothing was changed. Stop the node "
        "first, for example with `eagleray stop`"
    )


def is_open_in_a_node(data_dir: str, name: str) -> bool:
    """Whether a running node has a partition open. No file is changed, nor made, to find out."""
    return _is_locked(_lock_path(data_dir, name))


def running_nodes(data_dir: str) -> list[int]:
    """Return the ids of the nodes that run on a data directory."""
    locks = glob.glob(f"{glob.escape(data_dir)}/{NODES}/*.lock")
    node_ids = ((os.path.basename(path).removesuffix(".lock"), path) for path in locks)
    return sorted(int(node_id) for node_id, path in node_ids if node_id.isdecimal() and _is_locked(path))


def _lock_path(data_dir: str, name: str) -> str:
    return f"{data_dir}/locks/{name}.lock"


def _is_locked(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look do not see each other; a node that wants the lock just then tries again.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
