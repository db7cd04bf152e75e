"""`make bench-replication`: three machines on this host, of which some are lost, with one replica and with three.

python -m benchmarks.replication                      # everything, about twenty minutes
python -m benchmarks.replication machine --kills 5    # some kills of machines
python -m benchmarks.replication closed wire-txn      # some of the loads
python -m benchmarks.replication alarms               # busy loops beside it
"""

import argparse
import sys

import uvloop

from benchmarks.replication.alarms import alarms
from benchmarks.replication.failover import failover
from benchmarks.replication.kills import TARGET_S
from benchmarks.replication.loads import PARTS
from benchmarks.replication.replicas import replicas
from tests.support.machines import three_machines

GROUPS = {"failover": list(TARGET_S), "alarms": ["alarms"], "replicas": [part.name for part in PARTS]}


def parts_of(names: list[str]) -> list[str]:
    """The parts that are meant by names of parts and of groups; all by default."""
    return [part for name in names or GROUPS for part in GROUPS.get(name, [name])]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choices = [*dict.fromkeys([*GROUPS, *parts_of([])]), []]
    parser.add_argument("parts", nargs="*", choices=choices, help="groups or parts of them; all by default")
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each load is measured")
    parser.add_argument("--strain-seconds", type=float, default=30.0, help="how long busy loops run")
    parser.add_argument("--rate", type=float, default=2000.0, help="transactions offered each second")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    chosen = parts_of(arguments.parts)
    kinds = [kind for kind in GROUPS["failover"] if kind in chosen]
    loads = [part for part in GROUPS["replicas"] if part in chosen]
    failures = 0
    with three_machines() as machines:
        if kinds:
            uvloop.run(failover(machines, kinds, arguments.kills))
        if "alarms" in chosen:
            uvloop.run(alarms(machines, arguments.strain_seconds))
        if loads:
            options = {"rounds": arguments.rounds, "seconds": arguments.seconds, "rate": arguments.rate}
            failures = uvloop.run(replicas(machines, loads, **options))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
