"""What a streaming query's checkpoint says about it, for the sink, to which Spark does not say it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import fs

from eagleray.pipelines.source.offsets import CheckpointError, Offsets, from_checkpoint


def query_id_of(location: str) -> str:
    """Return the id of the query that the checkpoint belongs to."""
    identity: str = json.loads(_read(location, "metadata"))["id"]
    return identity


def offsets_of(location: str, batch_id: int) -> Offsets:
    """Return where a batch ends in the topics that the query reads, as the checkpoint had it before the batch began.

    A query may read from several sources; those that are not ours are left out.
    """
    # A line with the version, one about the batch, then one for each source.
    lines = _read(location, f"offsets/{batch_id}").decode().splitlines()[2:]
    offsets: Offsets = {}
    for line in lines:
        offsets.update(_ours(line))
    return offsets


def planned_ms_of(location: str | None, batch_id: int) -> int | None:
    """Return when Spark planned a batch for the first time; None where the checkpoint does not tell it here."""
    if location is None:
        return None
    try:
        about: Any = json.loads(_read(location, f"offsets/{batch_id}").decode().splitlines()[1])
        return int(about["batchTimestampMs"])
    except (CheckpointError, ValueError, LookupError, TypeError):
        return None


def _ours(line: str) -> Offsets:
    try:
        found: Any = json.loads(line)
        return from_checkpoint(found) if isinstance(found, dict) else {}
    except (json.JSONDecodeError, CheckpointError):
        return {}


def _read(location: str, name: str) -> bytes:
    try:
        system, path = (
            fs.FileSystem.from_uri(location) if "://" in location else (fs.LocalFileSystem(), _plain(location))
        )
        with system.open_input_stream(f"{path.rstrip('/')}/{name}") as file:
            return bytes(file.read())
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(
            f"{name} of the checkpoint at {location} cannot be read by the driver: {error}. The option `group` needs "
            "it, to commit the offsets of a batch together with what the batch has written."
        ) from error


def _plain(location: str) -> str:
    """Return the path of a location that may be a URI without a host, as in file:/data/checkpoint."""
    return location.removeprefix("file:")
