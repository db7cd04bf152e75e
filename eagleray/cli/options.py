"""Options that many commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
import typer

from eagleray.cli.complaints import Complaint

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Name = Annotated[str, typer.Option("--name", help="The name of the Eagleray cluster.", rich_help_panel="Connection")]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar=["EAGLERAY_ADDRESS", "RAY_ADDRESS"],
        help="The Ray cluster: HOST:PORT or auto. Without it: the one that `eagleray start` ran on this machine.",
        rich_help_panel="Connection",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Settings = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A setting; repeat it for more.")
]


class Connection(msgspec.Struct, frozen=True):
    """Which cluster a command is about."""

    name: str
    address: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Complaint(
                f"--name is {self.name!r}; expected up to 64 letters, digits, dots, dashes and underscores."
            )


def settings_of(pairs: Iterable[str] | None) -> dict[str, str]:
    """Take KEY=VALUE apart."""
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise Complaint(f"--config is {pair!r}; expected KEY=VALUE, for example retention.ms=86400000.")
        settings[key.strip()] = value.strip()
    return settings


def examples(*lines: str) -> str:
    """Return the end of a help text."""
    return "\n\n".join(("Examples:", *(f"  $ {line}" for line in lines)))
