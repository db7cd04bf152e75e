"""How commands print what was found wrong in a data directory."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from contextlib import suppress

import typer

from eagleray.cli.output import capitalized
from eagleray.offline.findings import Finding


def allow_many_files() -> None:
    """Let this process have as many files open as it may: a log has all of its segments open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def print_findings(findings: Iterable[Finding]) -> None:
    """Print each finding: the file, what is wrong with it, and what helps."""
    for finding in findings:
        where = finding.path
        if finding.offset is not None:
            where += f", offset {finding.offset}"
        if finding.position is not None:
            where += f", byte {finding.position}"
        typer.echo(f"{finding.severity}: {where}\n  {capitalized(finding.what)}.")
        if finding.help:
            typer.echo(f"  {capitalized(finding.help)}.")
