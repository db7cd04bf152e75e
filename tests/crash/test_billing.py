"""docs/examples/billing.py over a real PostgreSQL and real nodes, killed at each of its steps: both sides are exact."""

import contextlib
import signal
import subprocess
import sys
from collections import Counter

import pytest

from eagleray.actors.process.cluster_credentials import ClusterCredentials
from tests.support.cli_cluster import NodesOnThread
from tests.support.clusters import DEADLINE_S, until
from tests.support.pages import REPOSITORY
from tests.support.postgres import postgres, require_postgres

KILLED = -signal.SIGKILL
ACCOUNTS = ("alice", "bob")

POINTS = (
    # What is left is open, and aborted by the producer that comes next.
    "killed before the prepare",
    # It is prepared, and the database has no token of it: it is aborted.
    "killed before the answer to the prepare",
    "completing killed before the completion",
    "killed after the prepare",
    "completing killed before the answer to the end",
    "killed before the database's commit",
    "completing killed after the completion",
    # It is prepared, and the database has its token: it is committed.
    "killed after the database's commit",
    "completing killed before the completion",
    "killed before the commit",
    "completing killed before the answer to the end",
    "killed before the commit",
    "completing killed after the completion",
    # The coordinator has committed it.
    "killed before the answer to the end",
    "killed after the commit",
)
"""Where one process after the other ends; each completes what the one before it has left."""


@pytest.fixture(scope="module")
def database_at():
    require_postgres()
    with postgres() as where:
        yield where


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = NodesOnThread(tmp_path_factory.mktemp("nodes"))
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def cluster(nodes):
    with nodes.blocking_clients() as cluster:
        yield cluster


@pytest.fixture
def shop(database_at, nodes, cluster, tmp_path):
    psycopg = pytest.importorskip("psycopg")
    credentials = ClusterCredentials(nodes.nodes.token, nodes.nodes.nodes[0].image)
    contact = tmp_path / "contact"
    contact.write_bytes(credentials.without_topics().encode())
    cluster.admin.create_topic("invoices", partitions=2)
    with psycopg.connect(database_at, autocommit=True) as database:
        yield Shop(database_at, str(contact), database, cluster)
        database.execute("drop table orders, accounts, outbox")
    cluster.admin.delete_topic("invoices")


class Shop:
    """Both sides, and the processes that bill."""

    def __init__(self, database_at, contact, database, cluster):
        self.database_at, self.contact = database_at, contact
        self.database, self.cluster = database, cluster

    def place(self, count):
        """Take orders of different amounts, so that one that is billed twice does not make up for another."""
        with self.database.transaction():
            for name in ACCOUNTS:
                new = "insert into accounts values (%s, 100000) on conflict do nothing"
                self.database.execute(new, [name])
            for _ in range(count):
                row = self.database.execute(
                    "insert into orders (account, cents) values ('alice', 0) returning id"
                ).fetchone()
                account, cents = ACCOUNTS[row[0] % 2], 2 ** row[0]
                self.database.execute(
                    "update orders set account = %s, cents = %s where id = %s", [account, cents, row[0]]
                )

    def started(self, point):
        command = (sys.executable, "-m", "tests.crash.billing", point, self.database_at, self.contact)
        return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=REPOSITORY)

    def bill_as_its_page_says(self, *orders):
        options = [word for order in orders for word in ("--order", order)]
        command = (sys.executable, "docs/examples/billing.py", "--database", self.database_at, *options)
        subprocess.run((*command, "--address", self.contact), cwd=REPOSITORY, check=True, timeout=DEADLINE_S)

    def run(self, point):
        """Run a process to its end; return its status and what it has said."""
        with self.started(point) as process:
            _, said = process.communicate(timeout=DEADLINE_S)
        return process.returncode, said.decode()

    def billed(self):
        rows = self.database.execute("select id, account, cents from orders where billed").fetchall()
        return Counter(f"{number} {account} {cents}" for number, account, cents in rows)

    def unbilled(self):
        return self.database.execute("select count(*) from orders where not billed").fetchone()[0]

    def invoices(self):
        """What a reader of committed records finds, up to a last record behind all that is decided."""
        found = Counter()
        with contextlib.closing(self.cluster.consumer("invoices")) as consumer:
            while records := consumer.poll(timeout_ms=500):
                found.update(record.value.decode() for record in records)
        return found

    def check_database(self):
        """Every order is debited that is billed, once, and none that is not."""
        debits = Counter()
        for line in self.billed():
            _, account, cents = line.split()
            debits[account] -= int(cents)
        accounts = dict(self.database.execute("select name, cents from accounts").fetchall())
        assert accounts == {name: 100_000 + debits[name] for name in accounts}

    def check_exact(self):
        self.check_database()
        billed = self.billed()
        assert self.invoices() == billed


def test_both_sides_are_exact_wherever_the_process_is_killed(shop):
    shop.bill_as_its_page_says("alice:0", "bob:0")
    for point in POINTS:
        shop.place(2)
        status, said = shop.run(point)
        assert status == KILLED, f"{point}: it ended with {status}: {said}"
        shop.check_database()
        billed, invoices = shop.billed(), shop.invoices()
        assert set(invoices.values()) <= {1}, point
        # What the process was at when it died is decided by the next one.
        assert len(billed - invoices) <= 1, point
        assert not invoices - billed, point
    assert shop.run("never") == (0, "")
    assert shop.unbilled() == 0
    shop.check_exact()


def test_process_that_was_stopped_cannot_commit_its_part_alone(shop):
    """It is stopped between the two, and goes on after another process has completed what it had prepared."""
    shop.bill_as_its_page_says()
    shop.place(2)
    with shop.started("stopped after the prepare") as stopped:
        try:
            until(lambda: _is_stopped(stopped), "it is stopped")
            assert shop.run("never") == (0, "")
        finally:
            stopped.send_signal(signal.SIGCONT)
        _, said = stopped.communicate(timeout=DEADLINE_S)
    assert stopped.returncode == 1
    assert "another process bills as 'billing-1' by now" in said.decode()
    assert shop.unbilled() == 0
    shop.check_exact()


def _is_stopped(process):
    assert process.poll() is None, process.stderr.read().decode()
    with open(f"/proc/{process.pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"
