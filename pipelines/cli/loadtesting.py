"""stub"""

import typer


def add_to(app: typer.Typer) -> None:
    """Stub."""
