"""Records of the clusters that were started on this machine, so that commands and programs find them."""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import msgspec

_SUFFIX: Final = ".json"


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


def _folder() -> str:
    home = os.environ.get("EAGLERAY_HOME") or os.path.join(os.path.expanduser("~"), ".eagleray")
    return os.path.join(home, "clusters")


def _path(record: ClusterRecord) -> str:
    """A file for each cluster: two Ray clusters may each have one of the same name."""
    return os.path.join(_folder(), f"{record.name}@{quote(record.address, safe=':[]')}{_SUFFIX}")


def _old_path(name: str) -> str:
    """Where earlier releases recorded a cluster, whichever Ray cluster it was on."""
    return os.path.join(_folder(), f"{name}{_SUFFIX}")


def save(record: ClusterRecord) -> None:
    """Note where a cluster runs."""
    path = _path(record)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "wb") as file:
        file.write(msgspec.json.encode(record))
    os.replace(f"{path}.new", path)
    old = _read(_old_path(record.name))
    if old is not None and old.address == record.address:
        _forget(_old_path(record.name))


def load_all() -> list[ClusterRecord]:
    """Return where clusters run, by name and address, without those whose keepers have ended."""
    try:
        files = sorted(name for name in os.listdir(_folder()) if name.endswith(_SUFFIX))
    except OSError:
        return []
    found = [record for name in files if (record := _read(os.path.join(_folder(), name))) is not None]
    return list({(record.name, record.address): record for record in found}.values())


def _read(path: str) -> ClusterRecord | None:
    try:
        with open(path, "rb") as file:
            record = msgspec.json.decode(file.read(), type=ClusterRecord)
    except (OSError, msgspec.DecodeError):
        return None
    if record.keeper_pid and started_at(record.keeper_pid) != record.keeper_started:
        _forget(path)
        return None
    return record


def _forget(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path)


def named(name: str) -> list[ClusterRecord]:
    """Return the records of all clusters of a name, each on another Ray cluster."""
    return [record for record in load_all() if record.name == name]


def load(name: str) -> ClusterRecord | None:
    """Return where a cluster runs; None where none was started here, its keeper has ended, or several have the name."""
    return _only(named(name))


def meant_by(name: str | None) -> ClusterRecord | None:
    """Return the record of a cluster, or without a name the only one that there is."""
    return load(name) if name is not None else _only(load_all())


def _only(found: list[ClusterRecord]) -> ClusterRecord | None:
    return found[0] if len(found) == 1 else None


def kept(name: str, address: str) -> ClusterRecord | None:
    """Return the record of a cluster on a Ray cluster, where a process of this machine keeps both."""
    return next((each for each in _at(name, address) if each.keeper_pid), None)


def remove(name: str, address: str) -> None:
    """Forget a cluster; one of the same name on another Ray cluster stays."""
    for record in _at(name, address):
        _forget(_path(record))
        old = _read(_old_path(name))
        if old is not None and old.address == record.address:
            _forget(_old_path(name))


def _at(name: str, address: str) -> list[ClusterRecord]:
    return [each for each in named(name) if is_same_ray(each.address, address)]


def is_same_ray(address: str, other: str) -> bool:
    """Whether two addresses are of one Ray head, by whichever of its names."""
    (host, _, port), (other_host, _, other_port) = address.rpartition(":"), other.rpartition(":")
    return port == other_port and (host == other_host or bool(_resolved(host) & _resolved(other_host)))


def _resolved(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return set()


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
