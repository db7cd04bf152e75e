"""Write the table of APIs in docs/compatibility.md from the code, or check that it is up to date.

python scripts/compatibility_table.py            # write it
python scripts/compatibility_table.py --check    # fail if it would change
"""

import argparse
import sys
from pathlib import Path

# The folders of the repository have their names as packages only where they are installed, and mypy looks here.
from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.protocol.codec import APIS, Api

DOCUMENT = Path(__file__).parents[1] / "docs" / "compatibility.md"
BEGIN = "<!-- The table is written by scripts/compatibility_table.py. -->"
END = "<!-- End of the table. -->"

HEADING = ("key", "API", "encoded and decoded", "flexible from", "served", "notes")


def render_table() -> str:
    """Render the table of all APIs."""
    rows = [HEADING, ("--:", "---", "---", "---", "---", "---"), *(_row(api) for api in APIS.values())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(api: Api) -> tuple[str, ...]:
    flexible_since = api.request.wire.flexible_since
    served = _range((SERVED[api.key].lowest, SERVED[api.key].highest)) if api.key in SERVED else "no"
    flexible = "never" if flexible_since is None else str(flexible_since)
    return str(api.key), api.name, _range(api.versions), flexible, served, _notes(api)


def _range(versions: tuple[int, int]) -> str:
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def _notes(api: Api) -> str:
    unstable_since = api.request.wire.unstable_since
    if unstable_since is None:
        return ""
    served = SERVED.get(api.key)
    if served is not None and served.takes(unstable_since, two_phase=True):
        return f"version {unstable_since} is not stable in Kafka: served with `transaction.two.phase.commit.enable`"
    return f"version {unstable_since} is not stable in Kafka: it is to be served only when enabled"


def with_table(document: str) -> str:
    """Put the table between its marks in a document."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document lacks the marks round the table")
    return f"{before}{BEGIN}\n\n{render_table()}\n\n{END}{after}"


def is_up_to_date(path: Path = DOCUMENT) -> bool:
    """Say whether the document has the table that the code would give it."""
    document = path.read_text(encoding="utf-8")
    return with_table(document) == document


def main() -> int:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that the table is up to date")
    if parser.parse_args().check:
        if is_up_to_date():
            return 0
        print(f"{DOCUMENT} is out of date: run python scripts/compatibility_table.py", file=sys.stderr)
        return 1
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
