"""The command line: `eagleray start`, `eagleray topic create orders`, `eagleray consume orders` and so on."""

from eagleray.cli.app import main

__all__ = ["main"]
