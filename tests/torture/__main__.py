"""`python -m tests.torture --seconds 120 --seed 7`: is it exactly once, whoever is killed meanwhile?"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile

import msgspec

from tests.support.history import History
from tests.support.history_checker import check
from tests.torture.settings import TortureSettings
from tests.torture.torture import torture


def main() -> int:
    """Run a torture, print what came of it, and return 0 only if all was well."""
    default = TortureSettings()
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=default.seconds)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="chance, unless it is given")
    parser.add_argument("--machines", type=int, choices=[1, 3], default=default.machines)
    parser.add_argument("--layout", choices=["separate", "colocated"], help="separate; colocated on several machines")
    parser.add_argument("--clients", type=int, default=default.clients, help="client processes")
    parser.add_argument("--writers", type=int, default=default.writers, help="producers in each client process")
    parser.add_argument("--partitions", type=int, default=default.partitions, help="of each of the two topics")
    parser.add_argument("--pause-s", type=float, default=default.pause_s, help="between two faults, on average")
    parser.add_argument("--check", metavar="FILE", help="only judge a history again that was kept")
    options = vars(parser.parse_args())
    kept = options.pop("check")
    if kept is not None:
        return check_again(kept)
    if options["layout"] is None:
        # Eight processes on each of three machines are too many for a host that stands for all of them.
        options["layout"] = default.layout if options["machines"] == 1 else "colocated"
    try:
        settings = TortureSettings(**options).checked()
    except msgspec.ValidationError as error:
        parser.error(str(error))
    print(f"seed {settings.seed}", flush=True)
    report = torture(settings, tempfile.mkdtemp(prefix="torture-"))
    print(report.text())
    return 0 if report.is_good else 1


def check_again(path: str) -> int:
    """Judge a history that a torture has kept."""
    with open(path, "rb") as file:
        violations = check(msgspec.msgpack.decode(file.read(), type=History))
    for violation in violations:
        print(f"VIOLATION  {violation.text}")
    print(f"violations  {len(violations)}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
