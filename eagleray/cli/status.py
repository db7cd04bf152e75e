"""`eagleray status`: the nodes of a cluster and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from eagleray.cli.nodes import machine_names
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import duration, note, print_facts, print_json, print_rows
from eagleray.cli.running import run

if TYPE_CHECKING:
    from eagleray.cli.session import Session


app = typer.Typer()


@app.command(epilog=examples("eagleray status", "eagleray status --json"))
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


_SHOWN = (
    "node_id",
    "roles",
    "machine",
    "pid",
    "host",
    "port",
    "ray_node",
    "registered",
    "restarts",
    "disk",
    "clock",
    "offline",
    "cuts",
    "uncertain_ends",
    "damaged",
    "stray_logs",
    "held_back",
    "failed_requests",
)


def _node(described: dict[str, Any], machines: dict[int, str | None]) -> dict[str, Any]:
    known = described | {"machine": machines.get(described["node_id"])}
    return {key: known.get(key) for key in _SHOWN}


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
    rows = (
        {
            "node": node["node_id"],
            "roles": ", ".join(node["roles"]),
            "machine": node["machine"],
            "pid": node["pid"],
            "address": None if node["host"] is None else f"{node['host']}:{node['port']}",
            "Ray node": (node["ray_node"] or "-")[:12],
            "registered": node["registered"],
            "restarts": node["restarts"],
            "disk": _disk(node["disk"]),
            "offline": len(node["offline"] or ()),
            "cuts": sum((node["cuts"] or {}).values()),
        }
        for node in found["nodes"]
    )
    print_rows(rows, empty="no node is planned")
    for node in found["nodes"]:
        refusal = (node["disk"] or {}).get("refusal")
        if refusal:
            note(f"node {node['node_id']} takes nothing from clients: {refusal}")
        clock = node["clock"]
        if clock is not None and not clock["may_expire"]:
            note(
                f"nothing expires by the time of day on node {node['node_id']}: its wall clock has jumped by "
                f"{duration(abs(clock['ahead_ms']) / 1000)}; `eagleray doctor` says what to do"
            )
        for partition, reason in (node["offline"] or {}).items():
            note(f"offline: {partition} on node {node['node_id']}: {reason}")
        for partition, reason in (node["damaged"] or {}).items():
            note(f"damaged, and still served: {partition} on node {node['node_id']}: {reason}")
        if node["uncertain_ends"]:
            note(
                f"node {node['node_id']} may have lost the unflushed ends of {node['uncertain_ends']} logs with the "
                "power of its machine; its log names them"
            )
        if node["held_back"]:
            names = ", ".join(node["held_back"])
            note(f"kept until a person accepts that they go (its log says how): {names} on node {node['node_id']}")
        if node["failed_requests"]:
            counts = ", ".join(f"{kind} ({count})" for kind, count in node["failed_requests"].items())
            note(f"node {node['node_id']} has failed at requests, which changed nothing; its log says why: {counts}")
        if node["stray_logs"]:
            names = ", ".join(node["stray_logs"])
            typer.echo(
                f"\nnode {node['node_id']} neither serves nor removes what the metadata do not know: {names}; "
                "`eagleray storage strays list DIR` on its machine says what is known of each, and what to do"
            )


def _disk(described: dict[str, Any] | None) -> str | None:
    """What a node makes of its disk, and how much of it is free."""
    if described is None or described["free_bytes"] is None:
        return None
    return f"{described['state']}, {described['free_bytes'] / 1024**3:,.1f} GiB free"
