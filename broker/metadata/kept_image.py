"""The last image that a node has had, as it keeps it on its disk: what a lost metadata log can be made again from."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.generations import Generations, read_generations, summed, unsummed, write_generation
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage

SUFFIX: Final = ".image"
_VERSION: Final = 1


class KeptImage(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of the file."""

    version: int = _VERSION
    sequence: int
    """The number of the generation."""

    image: MetadataImage

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return summed(msgspec.msgpack.encode(self))

    @classmethod
    def decode(cls, data: bytes) -> KeptImage | None:
        """Read the file; None where it is damaged. DirectoryRefused where a later release has written it."""
        content = unsummed(data)
        if content is None:
            return None
        try:
            version = msgspec.msgpack.decode(content, type=_Version).version
            if version > _VERSION:
                raise DirectoryRefused(
                    f"a kept image of the metadata has version {version}; this release knows up to {_VERSION}. Nothing "
                    "was changed. Install the release that has written it, or a later one"
                )
            return msgspec.msgpack.decode(content, type=cls)
        except CANNOT_DECODE:
            return None


class _Version(msgspec.Struct, frozen=True):
    version: int


def kept_image_path(data_dir: str, node_id: int) -> str:
    """Where a node keeps its image."""
    return f"{data_dir}/nodes/{node_id}{SUFFIX}"


def read_kept_image(file_system: FileSystem, data_dir: str, node_id: int) -> Generations[KeptImage]:
    """Return the newest image that a node has kept, and how many of the two files cannot be read."""
    return read_generations(file_system, kept_image_path(data_dir, node_id), KeptImage.decode)


def write_kept_image(file_system: FileSystem, data_dir: str, node_id: int, kept: KeptImage) -> None:
    """Keep another image; it is on stable storage when this returns, and the one before stays."""
    write_generation(file_system, kept_image_path(data_dir, node_id), kept.sequence, kept.encode())
