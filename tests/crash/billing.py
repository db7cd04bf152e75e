"""docs/examples/billing.py in a process that ends itself with SIGKILL, or stops itself, at a named point.

python -m tests.crash.billing POINT DATABASE CONTACT
"""

import functools
import os
import signal
import sys

import psycopg

import eagleray
from eagleray.client.producer.sync_producer import Producer
from eagleray.client.producer.two_phase import TwoPhaseManager
from tests.support.pages import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "docs" / "examples"))
import billing  # type: ignore[import-not-found]

STEPS = {
    "the prepare": (Producer, "prepare"),
    "the answer to the prepare": (TwoPhaseManager, "_on_prepared"),
    "the database's commit": (psycopg.Transaction, "__exit__"),
    "the commit": (Producer, "commit"),
    "the answer to the end": (TwoPhaseManager, "_on_ended"),
    "the completion": (Producer, "complete"),
}
"""What a point is before, or after."""


class Trap:
    """Ends this process, or stops it, before or after the first call of a step once it is set."""

    def __init__(self, point: str) -> None:
        self.is_set = False
        self._how, self._when, step = point.split(" ", 2)
        owner, name = STEPS[step]
        call = getattr(owner, name)

        @functools.wraps(call)
        def called(*arguments, **named):
            self._reach("before")
            result = call(*arguments, **named)
            self._reach("after")
            return result

        # The step may be handed on when a client is made, so that it is replaced before that.
        setattr(owner, name, called)

    def _reach(self, when: str) -> None:
        if self.is_set and when == self._when:
            self.is_set = False
            os.kill(os.getpid(), signal.SIGKILL if self._how == "killed" else signal.SIGSTOP)


def main() -> None:
    """Complete what was left, bill one order, then end at the point; or bill all where that is to come never."""
    point, database_at, contact = sys.argv[1:]
    trap = None if point == "never" else Trap(point.removeprefix("completing "))
    if trap is not None:
        trap.is_set = point.startswith("completing ")
    settings = {"transactional_id": billing.BILLER, "transaction_two_phase_commit_enable": True}
    with (
        psycopg.connect(database_at, autocommit=True) as database,
        eagleray.connect(address=contact) as cluster,
        cluster.producer(**settings) as producer,
    ):
        biller = billing.Biller(database, producer)
        biller.bill_next()
        if trap is not None:
            trap.is_set = True
        while biller.bill_next():
            pass


if __name__ == "__main__":
    main()
