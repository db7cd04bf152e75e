"""`eagleray storage dump`: what files of a data directory hold."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from eagleray.broker.metadata.topics import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.cli.errors import UsageError
from eagleray.cli.output import note
from eagleray.offline.dump_log import Wanted
from eagleray.offline.dumping import dump_file, files_at

_ANY = "any"


class _Decoder(enum.StrEnum):
    BY_NAME = "by name"
    TEXT = "text"
    TRANSACTIONS = "transactions"
    OFFSETS = "offsets"
    METADATA = "metadata"


_TOPICS = {
    _Decoder.BY_NAME: "",
    _Decoder.TEXT: _ANY,
    _Decoder.TRANSACTIONS: TRANSACTION_STATE,
    _Decoder.OFFSETS: CONSUMER_OFFSETS,
    _Decoder.METADATA: CLUSTER_METADATA,
}


def dump(
    paths: Annotated[list[str], typer.Argument(metavar="FILE|DIR...", help="Files, or directories with all in them.")],
    *,
    deep_iteration: Annotated[bool, typer.Option("--deep-iteration", help="Print each record of a batch.")] = False,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and values too, those of internal topics decoded.")
    ] = False,
    decoder: Annotated[
        _Decoder,
        typer.Option("--decoder", help="Whose records these are, where the directory's name does not say so."),
    ] = _Decoder.BY_NAME,
) -> None:
    """Print what logs, indexes, snapshots and our own files hold. Nothing is changed.

    Logs, indexes and snapshots are printed line by line as Kafka's DumpLogSegments prints them. What is damaged is
    printed as far as it can be read.
    """
    is_decoded = print_data_log or decoder is not _Decoder.BY_NAME
    wanted = Wanted(records=deep_iteration or is_decoded, contents=is_decoded, decoder=_TOPICS[decoder])
    for path in paths:
        found = files_at(path)
        for file in found:
            _print(file, wanted, is_named=found == [path])


def _print(path: str, wanted: Wanted, *, is_named: bool) -> None:
    lines = dump_file(path, wanted)
    if lines is None:
        if is_named:
            raise UsageError(
                f"{path} is no file of a data directory by its name; expected the name that nodes gave it."
            )
        note(f"Ignoring unknown file {path}")
        return
    typer.echo(f"Dumping {path}")
    for line in lines:
        typer.echo(line)
