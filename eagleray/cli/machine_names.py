"""What commands call the machines of a cluster: the same in every table, and what they take as an argument."""

from __future__ import annotations

from eagleray.broker.controller.image import MetadataImage


def machine_names(image: MetadataImage) -> dict[int, str | None]:
    """The machine of each node: its name, or its host where a machine alone has no name; None as long as none is known.

    A cluster on one machine does not name it; its nodes share the host.
    """
    hosts = [node.host for _, node in sorted(image.nodes.items())]
    return {
        node_id: planned.machine or (image.nodes[node_id].host if node_id in image.nodes else next(iter(hosts), None))
        for node_id, planned in image.plan.items()
    }
