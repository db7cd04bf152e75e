"""Shared by the scripts that generate documents from the code: write one, or check that it is up to date."""

import argparse
import sys
from pathlib import Path


def write_or_check(document: Path, rendered: str, description: str | None) -> int:
    """Write the document, or with --check say whether it would change; return the exit code of the script."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the document would change")
    if not parser.parse_args().check:
        document.write_text(rendered, encoding="utf-8")
        return 0
    if document.exists() and document.read_text(encoding="utf-8") == rendered:
        return 0
    print(f"{document} is out of date: run python {sys.argv[0]}", file=sys.stderr)
    return 1
