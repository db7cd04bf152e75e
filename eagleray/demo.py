"""`make demo`: consume, transform and produce exactly once on a local cluster, while its actors are killed.

Orders are written in transactions, some of which are aborted. A job reads what was committed, charges each order, and
commits the charges together with how far it has read. Meanwhile one actor after the other is ended by kill -9. In the
end the charges are counted, to the cent.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

import eagleray
from eagleray.api import Cluster
from eagleray.client.sync import Consumer
from eagleray.client.sync_producer import Producer

ORDERS = 2_000
ORDERS_IN_A_TRANSACTION = 20
VICTIMS = ("leader", "coordinator", "markers", "groups", "controller", "allocator")

console = Console(highlight=False)


def main() -> None:
    """Run the demo; exits with an error if a count is not exact."""
    with tempfile.TemporaryDirectory(prefix="eagleray-demo-") as directory:
        console.print("[bold]Starting a local Ray cluster and a broker of Ray actors on it ...[/]")
        with eagleray.start(data_dir=directory) as cluster:
            _show_nodes(cluster)
            cluster.admin.create_topic("orders", partitions=4)
            cluster.admin.create_topic("charges", partitions=4)
            placed = _place_orders(cluster)
            kills = _charge_orders(cluster, len(placed))
            is_exact = _check(cluster, placed, kills)
    if not is_exact:
        raise SystemExit(1)


def _show_nodes(cluster: Cluster) -> None:
    table = Table(title="Actors", title_justify="left")
    for column in ("node", "role", "pid", "listens at"):
        table.add_column(column)
    for node in cluster.nodes():
        table.add_row(
            str(node["node_id"]), ", ".join(node["roles"]), str(node["pid"]), f"{node['host']}:{node['port']}"
        )
    console.print(table)


def _cents(order: int) -> int:
    return 100 + order * 37 % 9_900


def _place_orders(cluster: Cluster) -> dict[bytes, int]:
    """Write orders in transactions, and abort every fourth of them; return what was committed."""
    placed: dict[bytes, int] = {}
    aborted = 0
    with cluster.producer(transactional_id="shop") as producer:
        for first in range(0, ORDERS, ORDERS_IN_A_TRANSACTION):
            orders = {b"order-%d" % number: _cents(number) for number in range(first, first + ORDERS_IN_A_TRANSACTION)}
            producer.begin()
            for key, cents in orders.items():
                producer.send("orders", key=key, value=b"%d" % cents)
            if first // ORDERS_IN_A_TRANSACTION % 4 == 3:
                producer.abort()
                aborted += len(orders)
            else:
                producer.commit()
                placed |= orders
    console.print(f"Orders: [bold]{len(placed):,}[/] committed, {aborted:,} in transactions that were aborted.")
    return placed


def _charge_orders(cluster: Cluster, expected: int) -> list[str]:
    """Charge every committed order once, and kill an actor of each role meanwhile; return what was killed."""
    kills: list[str] = []
    charged = 0
    with (
        cluster.consumer("orders", group="billing", max_poll_records=50) as consumer,
        cluster.producer(transactional_id="billing-1") as producer,
    ):
        while charged < expected:
            charged += _charge_some(consumer, producer)
            if len(kills) < len(VICTIMS) and charged * (len(VICTIMS) + 1) >= expected * (len(kills) + 1):
                kills.append(_kill(cluster, VICTIMS[len(kills)]))
    return kills


def _charge_some(consumer: Consumer, producer: Producer) -> int:
    """One turn of the job: its charges and how far it has read become visible together."""
    records = consumer.poll(1000)
    if not records:
        return 0
    with producer.transaction():
        for record in records:
            producer.send("charges", key=record.key, value=record.value)
        positions = {record.topic_partition: record.offset + 1 for record in records}
        producer.send_offsets(positions, group="billing")
    return len(records)


def _kill(cluster: Cluster, role: str) -> str:
    node: dict[str, Any] = next(node for node in cluster.nodes() if role in node["roles"])
    os.kill(node["pid"], signal.SIGKILL)
    console.print(f"[red]kill -9 {node['pid']}[/]: node {node['node_id']}, {', '.join(node['roles'])}")
    return role


def _check(cluster: Cluster, placed: dict[bytes, int], kills: list[str]) -> bool:
    """Read the charges as any reader of committed records would, and compare."""
    charges: Counter[bytes] = Counter()
    total = 0
    deadline = time.monotonic() + 60
    with cluster.consumer("charges", isolation="read_committed") as consumer:
        while sum(charges.values()) < len(placed) and time.monotonic() < deadline:
            for record in consumer.poll(1000):
                charges[record.key or b""] += 1
                total += int(record.value or b"0")
        # One more look, for what should not be there.
        for record in consumer.poll(1000):
            charges[record.key or b""] += 1
    is_exact = charges == Counter(dict.fromkeys(placed, 1)) and total == sum(placed.values())
    table = Table(title="Exactly once?", title_justify="left")
    for column in ("", "expected", "found"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("orders charged", f"{len(placed):,}", f"{len(charges):,}")
    table.add_row("charged twice", "0", str(sum(count > 1 for count in charges.values())))
    table.add_row("charged, though aborted", "0", str(len(charges.keys() - placed.keys())))
    table.add_row("total", f"{sum(placed.values()) / 100:,.2f}", f"{total / 100:,.2f}")
    table.add_row("actors killed meanwhile", str(len(VICTIMS)), str(len(kills)))
    console.print(table)
    console.print("[bold green]Every count is exact.[/]" if is_exact else "[bold red]The counts differ.[/]")
    return is_exact and len(kills) == len(VICTIMS)


if __name__ == "__main__":
    main()
