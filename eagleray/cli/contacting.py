"""`eagleray contact`: what a program outside of Ray needs to reach the cluster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.running import run

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer()

File = Annotated[str, typer.Argument(metavar="FILE", help="Where to write it; only its owner may read the file.")]


@app.command(epilog=examples("eagleray contact /etc/eagleray/contact"))
def contact(file: File, *, name: Name = "", address: Address = None) -> None:
    """Write a file with which programs reach the cluster from outside of Ray.

    `eagleray.connect(address=FILE)`, --address of other commands and Spark's option `contact` take it.

    The file is a secret: it holds the cluster's token.
    """
    found, data = run(Connection(name, address), _encoded)
    _write(file, data)
    typer.echo(f"wrote {file}: keep it secret, it holds the token of cluster {found!r}.")


async def _encoded(session: Session) -> tuple[str, bytes]:
    assert session.credentials is not None
    return session.name, session.credentials.without_topics().encode()


def _write(path: str, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            # A file that was there keeps its rights when it is opened.
            os.fchmod(descriptor, 0o600)
            file.write(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; choose a file that you may write.") from None
