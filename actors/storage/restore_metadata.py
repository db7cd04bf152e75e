"""Making a lost metadata log again from the newest image that a node has kept, while no node runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Final

from eagleray.actors.storage.data_directory import write_identity
from eagleray.actors.storage.disk import Disk, PartitionLocked
from eagleray.actors.storage.log_manager import LogManager
from eagleray.actors.storage.metadata_log import ELECTION_STATE_FILE, METADATA_PARTITION, SETTINGS
from eagleray.actors.storage.put_aside import FOLDER as PUT_ASIDE
from eagleray.actors.storage.restore_plan import CannotRestore, RestorePlan
from eagleray.actors.storage.restore_sources import nodes_in
from eagleray.broker.log import Appended, Origin
from eagleray.broker.metadata.directory_identity import DirectoryIdentity
from eagleray.broker.metadata.log_records import encode_image
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import NO_TOPIC_ID
from eagleray.broker.quorum.election_state import ElectionState, write_election_state
from eagleray.protocol.records import NewRecord, build_batch, split_batches

_log = logging.getLogger(__name__)

_SCRATCH: Final = "restoring"
_MACHINE: Final = "machine-"


def data_directories(disk: Disk, path: str) -> list[str]:
    """Return a data directory and those of the machines in it, as far as they have nodes or logs."""
    inside = disk.list_directory(path) if disk.exists(path) else []
    candidates = [path, *(f"{path}/{name}" for name in inside if name.startswith(_MACHINE))]
    found = [each for each in candidates if disk.exists(f"{each}/nodes") or disk.exists(f"{each}/logs")]
    if not found:
        raise CannotRestore(f"{path} is no data directory: it has neither nodes/ nor logs/")
    return found


@contextmanager
def in_use_by_none(disk: Disk, data_dirs: Sequence[str]) -> Iterator[None]:
    """Keep nodes from starting on these directories meanwhile. CannotRestore where one runs."""
    with ExitStack() as stack:
        for data_dir in data_dirs:
            for node_id in nodes_in(disk, data_dir):
                path = f"{data_dir}/nodes/{node_id}.lock"
                if disk.exists(path):
                    try:
                        stack.callback(disk.lock(path).release)
                    except PartitionLocked as error:
                        raise CannotRestore(
                            f"node {node_id} runs on {data_dir}; stop the cluster first: nothing was changed"
                        ) from error
        yield


def carry_out(disk: Disk, plan: RestorePlan, now_ms: int) -> dict[int, str | None]:
    """Write the planned log for each voter; return where the log that it had lies now.

    All new logs are whole before the first old one is moved. A crash in between leaves voters without a log, which do
    not start, and it can be done again: what was put aside is looked at as well.
    """
    if not plan.voters:
        voters = ", ".join(map(str, plan.absent_voters))
        raise CannotRestore(
            f"none of the directories is that of a voter; the voters are {voters}. Give one of their directories, or a "
            f"new one for one of them: --voter {plan.absent_voters[0]}=DIR"
        )
    for node_id, data_dir in plan.voters.items():
        _write_scratch(disk, plan, node_id, data_dir, now_ms)
    put_aside = {node_id: _put_aside(disk, data_dir) for node_id, data_dir in plan.voters.items()}
    for node_id, data_dir in plan.voters.items():
        disk.make_directories(f"{data_dir}/logs")
        disk.move_tree(f"{data_dir}/{_SCRATCH}/logs/{METADATA_PARTITION}", f"{data_dir}/logs/{METADATA_PARTITION}")
        disk.remove_tree(f"{data_dir}/{_SCRATCH}")
        _log.warning("the metadata log of node %s was made again from %s", node_id, plan.source)
    return put_aside


def _write_scratch(disk: Disk, plan: RestorePlan, node_id: int, data_dir: str, now_ms: int) -> None:
    scratch = f"{data_dir}/{_SCRATCH}"
    disk.remove_tree(scratch)
    disk.make_directories(f"{scratch}/logs")
    logs = LogManager(scratch, {}, disk)
    log = logs.open(METADATA_PARTITION, SETTINGS, NO_TOPIC_ID, now_ms=now_ms)
    batches = split_batches(build_batch([NewRecord(encode_image(plan.image), timestamp=now_ms)]))
    (result,) = log.append(batches, leader_epoch=plan.term, now_ms=now_ms, origin=Origin.COORDINATOR)
    assert isinstance(result, Appended), result
    log.flush()
    log.advance_high_watermark(log.log_end_offset)
    election = ElectionState(term=plan.term, voted_for=NO_NODE, is_whole=True, committed=log.log_end_offset, sequence=1)
    write_election_state(disk, f"{logs.directory_of(METADATA_PARTITION)}/{ELECTION_STATE_FILE}", election)
    logs.close_all()
    if not any(each == node_id for each in _identified(disk, data_dir)):
        write_identity(disk, data_dir, DirectoryIdentity(node_id=node_id, cluster_id=plan.image.cluster_id))


def _identified(disk: Disk, data_dir: str) -> list[int]:
    names = disk.list_directory(f"{data_dir}/nodes") if disk.exists(f"{data_dir}/nodes") else []
    return [int(name.partition(".")[0]) for name in names if ".identity" in name]


def _put_aside(disk: Disk, data_dir: str) -> str | None:
    directory = f"{data_dir}/logs/{METADATA_PARTITION}"
    if not disk.exists(directory):
        return None
    folder = f"{data_dir}/{PUT_ASIDE}"
    disk.make_directories(folder)
    target = next(path for number in count() if not disk.exists(path := f"{folder}/{METADATA_PARTITION}.{number}"))
    disk.move_tree(directory, target)
    return target
