"""Which clusters were started from this machine, so that commands find them by name."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

import msgspec

from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Connection


class ClusterRecord(msgspec.Struct, frozen=True):
    """Where a cluster runs, and which process keeps it: 0 where it runs on by itself."""

    name: str
    address: str
    data_dir: str
    bootstrap: str
    ray_auth_mode: str = ""
    """How Ray tells who may join it, in Ray's own word; empty where it does not."""

    keeper_pid: int = 0
    keeper_started: int = 0
    """When the keeper began, in the kernel's ticks: a pid may be given to another process, with another time."""


def _path(name: str) -> str:
    home = os.environ.get("EAGLERAY_HOME") or os.path.join(os.path.expanduser("~"), ".eagleray")
    return os.path.join(home, "clusters", f"{name}.json")


def save(record: ClusterRecord) -> None:
    """Note where a cluster runs."""
    path = _path(record.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "wb") as file:
        file.write(msgspec.json.encode(record))
    os.replace(f"{path}.new", path)


def load(name: str) -> ClusterRecord | None:
    """Return where a cluster runs; None where it was not started here, or its keeper has ended."""
    try:
        with open(_path(name), "rb") as file:
            record = msgspec.json.decode(file.read(), type=ClusterRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    if record.keeper_pid and started_at(record.keeper_pid) != record.keeper_started:
        remove(name)
        return None
    return record


def remove(name: str) -> None:
    """Forget a cluster."""
    with suppress(FileNotFoundError):
        os.remove(_path(name))


def started_at(pid: int) -> int:
    """When a process began, in the kernel's ticks; -1 where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The second field is the program's name in parentheses, and may hold anything.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if fields[0] == "Z" else int(fields[19])


def end_keeper(record: ClusterRecord, timeout_s: float) -> bool:
    """Ask a cluster's keeper to end, and wait for it; return whether it has ended."""
    try:
        descriptor = os.pidfd_open(record.keeper_pid)
    except ProcessLookupError:
        return True
    try:
        # From here on the descriptor means one process, whatever becomes of its number.
        if started_at(record.keeper_pid) != record.keeper_started:
            return True
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))
    finally:
        os.close(descriptor)


def address_of(connection: Connection) -> str:
    """Where the Ray cluster is that a command is about."""
    if connection.address is not None:
        return connection.address
    record = load(connection.name)
    if record is None:
        raise Complaint(
            f"no Eagleray cluster named {connection.name!r} was started on this machine; start one with "
            "`eagleray start --data-dir DIR`, or say where Ray runs with --address HOST:PORT."
        )
    return record.address
