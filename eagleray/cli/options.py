"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from eagleray.cli.errors import UsageError
from eagleray.client.errors import InvalidArgument
from eagleray.location import EXPECTED_NAME, check_name

Name = Annotated[
    str,
    typer.Option(
        "--name",
        help="The name of the Eagleray cluster.",
        show_default="the only one that there is",
        rich_help_panel="Connection",
    ),
]
NewName = Annotated[
    str, typer.Option("--name", help="The name that the cluster gets or has.", rich_help_panel="Connection")
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar=["EAGLERAY_ADDRESS", "RAY_ADDRESS"],
        help="The Ray cluster, HOST:PORT or auto, or a contact file. Without it: what was started on this machine.",
        rich_help_panel="Connection",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Settings = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A setting; repeat it for more.")
]


class Connection(msgspec.Struct, frozen=True):
    """Which cluster a command is about."""

    name: str = ""
    """Empty for the only one that there is."""

    address: str | None = None

    def __post_init__(self) -> None:
        try:
            check_name(self.name or None)
        except InvalidArgument:
            raise UsageError(f"--name is {self.name!r}; expected {EXPECTED_NAME}.") from None


def settings_of(pairs: Iterable[str] | None) -> dict[str, str]:
    """Take KEY=VALUE apart."""
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"--config is {pair!r}; expected KEY=VALUE, for example retention.ms=86400000.")
        settings[key.strip()] = value.strip()
    return settings


def examples(*lines: str) -> str:
    """Return the end of a help text."""
    return "\n\n".join(("Examples:", *(f"  $ {line}" for line in lines)))
