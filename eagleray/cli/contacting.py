"""`eagleray contact`: what a program outside of Ray needs to reach the cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.running import run

if TYPE_CHECKING:
    from eagleray.cli.session import Session

File = Annotated[str, typer.Argument(metavar="FILE", help="Where to write it; only its owner may read the file.")]


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("eagleray contact /etc/eagleray/contact"))(contact)


def contact(file: File, *, name: Name = "default", address: Address = None) -> None:
    """Write a file with which Spark reaches the cluster from outside of Ray: its option `contact` takes it.

    The file is a secret: it holds the cluster's token.
    """
    _write(file, run(Connection(name, address), _encoded))
    typer.echo(f"wrote {file}: keep it secret, it holds the token of cluster {name!r}.")


async def _encoded(session: Session) -> bytes:
    assert session.contact is not None
    return session.contact.without_topics().encode()


def _write(path: str, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            # A file that was there keeps its rights when it is opened.
            os.fchmod(descriptor, 0o600)
            file.write(data)
    except OSError as error:
        raise Complaint(f"cannot write {path}: {error.strerror}; choose a file that you may write.") from None
