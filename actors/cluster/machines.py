"""Machines: the Ray nodes that a cluster is spread over, and the place of each.

A machine is known by its address, which stays when its Ray node is restarted; the id of a Ray node does not. Its place,
from 0 on, says which nodes run there and where their data are, and must never change. So the machine that starts the
cluster, and every machine that has a node, writes it into the data directory, as a line with the address for each
place: whichever machines are left can start the cluster again.
"""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
import ray

from eagleray.actors.common.spec import CONTROLLER_NODE_ID
from eagleray.actors.lanes.frames import TOKEN_BYTES
from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.metadata.nodes import FIRST_DEDICATED_NODE_ID, PlannedNode, ProcessRole

NODES_OF_A_MACHINE: Final = 100
"""How many node ids each machine has."""

MOST_MACHINES: Final = FIRST_DEDICATED_NODE_ID // NODES_OF_A_MACHINE
QUORUM: Final = 3
"""How many machines have a controller, where there are so many: one of them may be lost."""

MachineCount: TypeAlias = int | Literal["all"] | None
"""How many machines: a number, every Ray node, or as many as the data directory is for, which is 1 when it is new."""

_FILE: Final = "machines"
_TOKEN: Final = "token"  # noqa: S105 - the name of the file
_FOLDER: Final = "machine-"
_A_LITTLE: Final = 0.0001
"""The least that Ray counts: each Ray node has 1 of the resource that is named after its address."""


class CannotStart(Exception):
    """A cluster cannot be started as it was asked for; the text says why and what to do."""


class MachinesMissing(CannotStart):
    """Machines that are needed are not in the Ray cluster; they may be about to join it."""


class CannotAdd(Exception):
    """A machine cannot be added to a cluster; the text says why and what to do."""


class Machine(msgspec.Struct, frozen=True):
    """One machine of a cluster."""

    address: str
    index: int = 0

    @property
    def resources(self) -> dict[str, float]:
        """The Ray resources that run an actor on this machine, and restart it there whenever the machine is back."""
        return {f"node:{self.address}": _A_LITTLE}


def data_dir_of(data_dir: str, machine: Machine, count: int) -> str:
    """Where a machine's nodes keep their data: with several, each has a folder, so that they may share a disk."""
    return data_dir if count == 1 else f"{data_dir}/{_FOLDER}{machine.index}"


# Which machines


def choose(
    wanted: MachineCount, known: Sequence[str], alive: Sequence[str], without: Sequence[str] = ()
) -> tuple[Machine, ...]:
    """Choose the machines of a cluster: those that it has, each in its place, and then others, this one first.

    `known` are the addresses that the data directory was used with, `alive` those of the running Ray nodes, this one
    first, and `without` those of machines that keep their places although they are gone. Raises CannotStart, which is
    MachinesMissing where waiting may help.
    """
    count = _count(wanted, known, alive)
    if count > MOST_MACHINES:
        raise CannotStart(f"{count} machines were asked for; a cluster has {MOST_MACHINES} at the most")
    _check_left_out(without, known)
    gone = [address for address in known if address not in alive and address not in without]
    if gone:
        raise MachinesMissing(
            f"this data directory is that of a cluster on {_listed(known)}; Ray has no node at {_listed(gone)}, "
            f"only at {_listed(alive)}. Start Ray there, or do without it; a machine that has another address now is "
            f"to be named in the file `{_FILE}` of the data directory, in its old place"
        )
    if count < len(known):
        raise CannotStart(
            f"this data directory is that of a cluster on {len(known)} machines, {_listed(known)}; "
            f"it cannot be started on {count}"
        )
    others = [address for address in alive if address not in known]
    addresses = (*known, *others)[:count]
    if count > len(addresses):
        raise MachinesMissing(
            f"{count} machines were asked for, and Ray has {_counted(len(alive), 'node')}, at {_listed(alive)}; "
            "add some with `ray start --address=…` on each machine, or ask for fewer"
        )
    _check_majority(addresses, alive)
    return tuple(Machine(address, index) for index, address in enumerate(addresses))


def _count(wanted: MachineCount, known: Sequence[str], alive: Sequence[str]) -> int:
    if wanted is None:
        return len(known) or 1
    if wanted == "all":
        return min(len(alive), MOST_MACHINES)
    if wanted < 1:
        raise CannotStart(f"{wanted} machines were asked for; expected 1 or more")
    return wanted


def _check_left_out(without: Sequence[str], known: Sequence[str]) -> None:
    unknown = [address for address in without if address not in known]
    if unknown:
        raise CannotStart(
            f"{_listed(unknown)} cannot be left out: this data directory is that of a cluster on "
            f"{_listed(known) or 'one machine'}"
        )


def _check_majority(addresses: Sequence[str], alive: Sequence[str]) -> None:
    deciding = addresses[: controllers_among(len(addresses))]
    there = [address for address in deciding if address in alive]
    if 2 * len(there) <= len(deciding):
        raise MachinesMissing(
            f"of {_listed(deciding)}, which decide for the cluster, {_listed(there) or 'none'} is there; "
            f"it needs {len(deciding) // 2 + 1} of them"
        )


def one_more(machines: Sequence[Machine], address: str, alive: Sequence[str]) -> Machine:
    """Give a machine the next place in a running cluster; raises CannotAdd where it cannot have one.

    `alive` are the addresses of the running Ray nodes.
    """
    known = [machine.address for machine in machines]
    if len(known) < QUORUM:
        raise CannotAdd(
            f"this cluster is on {_counted(len(known), 'machine')}, and its controller on one of them; only a cluster "
            f"on {QUORUM} or more can grow. Start one with `--machines {QUORUM}` and another data directory"
        )
    if address in known:
        raise CannotAdd(f"machine {address} is a part of this cluster already, which is on {_listed(known)}")
    if address not in alive:
        raise CannotAdd(
            f"Ray has no node at {address}, only at {_listed(alive)}; start it there with `ray start --address=…`"
        )
    if len(known) >= MOST_MACHINES:
        raise CannotAdd(f"this cluster is on {len(known)} machines, and cannot be on more")
    return Machine(address, len(known))


def _listed(addresses: Sequence[str]) -> str:
    return ", ".join(addresses)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def alive_addresses() -> tuple[str, ...]:
    """The addresses of all Ray nodes that are alive, that of this process first, each once."""
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call] # Ray has not typed it
    here = ray.get_runtime_context().get_node_id()
    nodes.sort(key=lambda node: (node["NodeID"] != here, node["NodeManagerAddress"]))
    return tuple(dict.fromkeys(str(node["NodeManagerAddress"]) for node in nodes))


# What the data directory says


def known_machines(data_dir: str) -> tuple[str, ...]:
    """The machines that a data directory was used with; none where it is new, or that of a cluster on one machine."""
    file_system, path = LocalFileSystem(), f"{data_dir}/{_FILE}"
    if file_system.exists(path):
        return tuple(file_system.read_bytes(path).decode().split())
    folders = sorted(glob.glob(f"{glob.escape(data_dir)}/{_FOLDER}*"))
    if folders:
        # A guess could start another cluster beside the data of this one.
        raise CannotStart(
            f"{folders[0]} belongs to a cluster on several machines, and there is no {path}, which says which of them "
            "is which; copy it from the machine that the cluster was started on, or write it: a line with the address "
            f"of the machine with {_FOLDER}0, then that with {_FOLDER}1, and so on"
        )
    return ()


def remember(data_dir: str, machines: Sequence[Machine]) -> None:
    """Write down which machine has which place; a single one needs none."""
    if len(machines) == 1:
        return
    if os.path.isdir(f"{data_dir}/nodes"):
        raise CannotStart(
            f"the data directory {data_dir} is that of a cluster on one machine, which cannot be spread over "
            f"{len(machines)}; start it on one, or choose another directory"
        )
    _replace(f"{data_dir}/{_FILE}", _lines(machines))


def has_been_used(data_dir: str) -> bool:
    """Whether a cluster was started with a data directory before, with whatever is left of it."""
    return os.path.exists(f"{data_dir}/{_TOKEN}")


def token_of(data_dir: str) -> bytes:
    """The token of a cluster, drawn when its data directory is first used."""
    path = f"{data_dir}/{_TOKEN}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with open(path, "rb") as file:
            return file.read()
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(TOKEN_BYTES))
    return token_of(data_dir)


def keep_copies(data_dir: str, machines: Sequence[Machine], token: bytes) -> None:
    """Write down, on a machine with a node, what only the machine that started the cluster would know otherwise.

    So whichever machines are left can start the cluster again, and clients that have its token still reach it. A node
    that was started before machines were added does not know of them: their lines stay.
    """
    if len(machines) == 1:
        return
    addresses = tuple(machine.address for machine in machines)
    path = f"{data_dir}/{_FILE}"
    written = known_machines(data_dir) if os.path.exists(path) else ()
    if written[: len(addresses)] != addresses:
        _replace(path, _lines(machines))
    _replace(f"{data_dir}/{_TOKEN}", token)


def _lines(machines: Sequence[Machine]) -> bytes:
    return "".join(f"{machine.address}\n" for machine in machines).encode()


def _replace(path: str, data: bytes) -> None:
    """Replace a file, whole or not at all, while other nodes of the machine do the same; only the owner may read it."""
    file_system = LocalFileSystem()
    if file_system.exists(path) and file_system.read_bytes(path) == data:
        return
    temporary = f"{path}.{os.getpid()}"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    file_system.flush_directory(os.path.dirname(path))


# Which nodes on each


def spread(layout: Sequence[PlannedNode], machines: Sequence[Machine], *, controllers: int) -> tuple[PlannedNode, ...]:
    """Plan the nodes of a layout on each machine, with a controller on the first `controllers` of them.

    A node of a single machine names none: the cluster may run elsewhere the next time.
    """
    if len(machines) == 1:
        return tuple(layout)
    return tuple(
        node for machine in machines for node in nodes_on(machine, layout, has_controller=machine.index < controllers)
    )


def nodes_on(machine: Machine, layout: Sequence[PlannedNode], *, has_controller: bool) -> tuple[PlannedNode, ...]:
    """Plan the nodes of a layout on one of several machines."""
    return tuple(
        PlannedNode(_node_id(machine, node), roles, machine=machine.address)
        for node in layout
        if (roles := _roles(node, has_controller=has_controller))
    )


def layout_of(plan: Iterable[PlannedNode]) -> tuple[PlannedNode, ...]:
    """The layout that a plan for several machines was made of, as the first of them has it."""
    return tuple(PlannedNode(node.node_id, node.roles) for node in plan if node.node_id < NODES_OF_A_MACHINE)


def machines_of(plan: Iterable[PlannedNode]) -> tuple[Machine, ...]:
    """The machines of a plan, each in its place; none where it names none."""
    places = {
        node.node_id // NODES_OF_A_MACHINE: node.machine for node in plan if node.dedicated_to is None and node.machine
    }
    return tuple(Machine(address, index) for index, address in sorted(places.items()))


def _node_id(machine: Machine, node: PlannedNode) -> int:
    assert 0 <= node.node_id < NODES_OF_A_MACHINE, "layouts have fewer nodes than a machine has ids"
    return machine.index * NODES_OF_A_MACHINE + node.node_id


def _roles(node: PlannedNode, *, has_controller: bool) -> tuple[str, ...]:
    return tuple(role for role in node.roles if has_controller or role != ProcessRole.CONTROLLER)


def controllers_among(machine_count: int) -> int:
    """How many of so many machines have a controller: with two, either one lost would end both, so one has it."""
    return QUORUM if machine_count >= QUORUM else 1


def controllers_of(plan: Sequence[PlannedNode]) -> tuple[int, ...]:
    """The nodes of which one is the controller."""
    return tuple(node.node_id for node in plan if ProcessRole.CONTROLLER in node.roles) or (CONTROLLER_NODE_ID,)


def locks_of(data_dir: str, machines: Sequence[Machine], plan: Sequence[PlannedNode]) -> list[str]:
    """The lock of the first node on each machine, which shows whether the directory is in use."""
    first: dict[str, int] = {}
    for node in plan:
        first[node.machine] = min(node.node_id, first.get(node.machine, node.node_id))
    folders = {
        "" if len(machines) == 1 else each.address: data_dir_of(data_dir, each, len(machines)) for each in machines
    }
    return [f"{folders[machine]}/nodes/{node_id}.lock" for machine, node_id in first.items()]
