"""Old copies of a machine's disk, whole in themselves, that come back where they must not count."""

import posixpath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eagleray.actors.roles.metadata_quorum import METADATA_PARTITION
from eagleray.actors.storage.data_directory import IDENTITY_SUFFIX
from eagleray.broker.checked_file import decode_checked
from eagleray.broker.metadata.directory_identity import DirectoryIdentity
from tests.simulation.cluster.file_damage import Held
from tests.simulation.cluster.passing_watch import DirectoryWatch
from tests.simulation.cluster.ports import MachineDisk

if TYPE_CHECKING:
    from tests.simulation.cluster.machine import SimulatedMachine

ANOTHER_CLUSTER = "another cluster"
METADATA_FOLDER = f"/data/logs/{METADATA_PARTITION}"


class Backups:
    """The files of a machine as they were some time ago, and what is to be put back in their place."""

    def __init__(self, machine: "SimulatedMachine") -> None:
        self._machine = machine
        self._older: dict[str, bytes] | None = None
        self._version = 0
        self._own_disk: MachineDisk | None = None
        self._own_metadata: dict[str, bytes] | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the machine has the disk of another cluster."""
        return self._own_disk is not None

    @property
    def are_in_place(self) -> bool:
        """Whether what its voter has is old, or another's, so that what it decides is of no account."""
        return self.is_foreign or self._own_metadata is not None

    def take(self) -> bool:
        """Remember all files, if that was not done before; return whether the node has learned something since."""
        if self._older is None:
            self._older = self._machine.disk.tree()
            self._version = self._machine.harness.watch.image.version
        return self._machine.known.version > self._version

    def use_foreign_disk(self) -> None:
        """Come back with the disk of a cluster that was made of an old copy of this one; the process is down."""
        assert self._older is not None
        machine = self._machine
        self._own_disk, machine.disk = machine.disk, MachineDisk(DirectoryWatch(machine))
        for path, content in self._older.items():
            machine.disk.make_directories(posixpath.dirname(path))
            machine.disk.put(path, _of_another_cluster(content) if IDENTITY_SUFFIX in path else content)
        machine.disk.tell_of_no_rot()
        machine.held = Held({}, {})

    def roll_back_metadata(self) -> None:
        """Come back with the metadata log of an old backup; the process is down."""
        assert self._older is not None
        self._own_metadata = self._metadata_of(self._machine.disk.tree())
        self._put_metadata(self._metadata_of(self._older))
        self._machine.held = Held({}, {})

    def put_back(self) -> None:
        """Have a person put back what is the machine's own."""
        if self._own_disk is not None:
            self._machine.disk, self._own_disk = self._own_disk, None
        if self._own_metadata is not None:
            self._put_metadata(self._own_metadata)
            self._own_metadata = None

    def _put_metadata(self, files: dict[str, bytes]) -> None:
        disk = self._machine.disk
        for path in {**self._metadata_of(disk.tree()), **files}:
            disk.put(path, files.get(path))
        disk.tell_of_no_rot()

    @staticmethod
    def _metadata_of(tree: dict[str, bytes]) -> dict[str, bytes]:
        return {path: content for path, content in tree.items() if path.startswith(f"{METADATA_FOLDER}/")}


def _of_another_cluster(identity: bytes) -> bytes:
    return replace(decode_checked(identity, DirectoryIdentity), cluster_id=ANOTHER_CLUSTER).encode()
