"""`eagleray status`: the nodes of a cluster and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from eagleray.cli.machine_names import machine_names
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import print_facts, print_json, print_table
from eagleray.cli.running import run

if TYPE_CHECKING:
    from eagleray.cli.session import Session


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("eagleray status", "eagleray status --json"))(status)


def status(*, json: Json = False, name: Name = "", address: Address = None) -> None:
    """Show the cluster: every node with its roles, machine, process and address, and the topics in short."""
    found = run(Connection(name, address), describe)
    if json:
        print_json(found)
    else:
        _print(found)


async def describe(session: Session) -> dict[str, Any]:
    """Gather what there is to say about a cluster."""
    view = session.cluster.runtime.view
    await view.refreshed()
    machines = machine_names(view.image)
    nodes = [_node(node, machines) for node in await session.nodes()]
    topics = await session.cluster.admin.list_topics()
    return {
        "cluster": session.name,
        "cluster_id": view.image.cluster_id,
        "ray_address": session.address,
        "layout": "colocated" if any(len(node["roles"]) > 1 for node in nodes) else "separate",
        "metadata_version": view.image.version,
        "nodes": nodes,
        "topics": [{"name": topic, "partitions": count} for topic, count in topics.items()],
        "partitions": sum(topics.values()),
    }


_UNKNOWN: dict[str, Any] = {
    "machine": None,
    "pid": None,
    "host": None,
    "port": None,
    "ray_node": None,
    "restarts": None,
}
_SHOWN = ("node_id", "roles", "machine", "pid", "host", "port", "ray_node", "registered", "restarts")


def _node(described: dict[str, Any], machines: dict[int, str | None]) -> dict[str, Any]:
    known = _UNKNOWN | described
    known["machine"] = machines.get(known["node_id"])
    return {key: known[key] for key in _SHOWN}


def _print(found: dict[str, Any]) -> None:
    topics = ", ".join(f"{topic['name']} ({topic['partitions']})" for topic in found["topics"])
    print_facts(
        {
            "cluster": found["cluster"],
            "id": found["cluster_id"],
            "Ray": found["ray_address"] or None,
            "layout": found["layout"],
            "topics": topics or "none yet: `eagleray topic create NAME` makes one",
        }
    )
    print_table(
        ("node", "roles", "machine", "pid", "address", "Ray node", "registered", "restarts"),
        (
            (
                node["node_id"],
                ", ".join(node["roles"]),
                node["machine"],
                node["pid"],
                None if node["host"] is None else f"{node['host']}:{node['port']}",
                (node["ray_node"] or "-")[:12],
                node["registered"],
                node["restarts"],
            )
            for node in found["nodes"]
        ),
        empty="no node is planned",
    )
