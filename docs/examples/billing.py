"""One atomic step over PostgreSQL and a topic: an account is debited and its invoice is sent, or neither happens.

    eagleray start --data-dir data --detach
    eagleray topic create invoices
    python docs/examples/billing.py --database "dbname=shop" --order alice:1200

It needs psycopg (`pip install "psycopg[binary]"`). It may be killed at any moment, and two of it may run by mistake:
started again, it completes what was left and bills what is not yet billed.
"""

from __future__ import annotations

import argparse
import uuid

import psycopg

import eagleray
from eagleray import PreparedTransaction, Producer

BILLER = "billing-1"
"""The transactional id, and the row of the outbox that belongs to it."""

SCHEMA = """
create table if not exists accounts (name text primary key, cents bigint not null);
create table if not exists orders (id bigint generated always as identity primary key,
    account text not null references accounts, cents bigint not null, billed boolean not null default false);
create table if not exists outbox (id text primary key, owner text not null, token text);
"""


class Superseded(Exception):
    """A newer process bills in the place of this one."""


class Biller:
    """Bills order after order; no order is billed twice, and none without its invoice.

    Owns, in the database, the row of the outbox: it says which process bills, and the token of the last transaction
    that the database has committed. Both are read and written in the database's own transactions.
    """

    def __init__(self, database: psycopg.Connection, producer: Producer) -> None:
        self.database = database
        self.producer = producer
        self.owner = uuid.uuid4().hex
        self._complete_what_was_left()

    def _complete_what_was_left(self) -> None:
        # From here on no older process commits its part in the database: what it has committed is seen here. The
        # topic's side has refused it since this producer was initialized.
        row = self.database.execute(
            "insert into outbox (id, owner) values (%s, %s) on conflict (id) do update set owner = excluded.owner "
            "returning token",
            [BILLER, self.owner],
        ).fetchone()
        if self.producer.prepared is not None:
            stored = PreparedTransaction.parse(row[0]) if row and row[0] else None
            self.producer.complete(stored)

    def bill_next(self) -> bool:
        """Bill the next order; return whether there was one."""
        order = self.database.execute(
            "select id, account, cents from orders where not billed order by id limit 1"
        ).fetchone()
        if order is not None:
            self._bill(*order)
        return order is not None

    def _bill(self, number: int, account: str, cents: int) -> None:
        with self.producer.transaction():  # its end commits; once it is prepared, an exception leaves it prepared
            self.producer.send("invoices", f"{number} {account} {cents}", key=account)
            prepared = self.producer.prepare(context=str(number).encode())
            with self.database.transaction():
                self.database.execute("update accounts set cents = cents - %s where name = %s", [cents, account])
                self.database.execute("update orders set billed = true where id = %s", [number])
                stored = self.database.execute(
                    "update outbox set token = %s where id = %s and owner = %s", [str(prepared), BILLER, self.owner]
                )
                if stored.rowcount != 1:
                    raise Superseded(f"another process bills as {BILLER!r} by now")


def bill_all(database: psycopg.Connection, cluster: eagleray.Cluster) -> None:
    """Complete what was left, then bill every order that is not billed."""
    with cluster.producer(transactional_id=BILLER, transaction_two_phase_commit_enable=True) as producer:
        biller = Biller(database, producer)
        while biller.bill_next():
            pass


def place(database: psycopg.Connection, order: str) -> None:
    """Take an order, `ACCOUNT:CENTS`, from an account that has 100,000 cents to begin with."""
    account, _, cents = order.rpartition(":")
    with database.transaction():
        database.execute("insert into accounts values (%s, 100000) on conflict do nothing", [account])
        database.execute("insert into orders (account, cents) values (%s, %s)", [account, int(cents)])


def main() -> None:
    """Read the command line, and bill."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--database", default="", help="where PostgreSQL is, as psycopg takes it")
    parser.add_argument("--address", help="where the cluster is, as eagleray.connect takes it")
    parser.add_argument("--order", action="append", default=[], metavar="ACCOUNT:CENTS", help="an order to take before")
    arguments = parser.parse_args()
    with psycopg.connect(arguments.database, autocommit=True) as database:
        database.execute(SCHEMA)
        for order in arguments.order:
            place(database, order)
        with eagleray.connect(address=arguments.address) as cluster:
            bill_all(database, cluster)


if __name__ == "__main__":
    main()
