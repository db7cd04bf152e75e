"""One real node in a process that it shares with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.process.node import Node
from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.actors.storage.disk import Disk
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.transactions.resolver_events import AskResolver


class NoActors:
    """A supervisor without Ray: the cluster alone starts and stops nodes."""

    def actor_of(self, node_id: int) -> NoReturn:
        """Say that there is no actor."""
        raise LookupError(node_id)

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Refuse: no topic has nodes of its own here."""
        raise NotImplementedError

    def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Refuse: no topic has nodes of its own here."""
        raise NotImplementedError

    def plan_changed(self, plan: Iterable[PlannedNode]) -> None:
        """Do nothing: there are no actors to start."""

    def ask_resolver(self, question: AskResolver, then: Callable[[ResolverVerdict], None]) -> None:  # noqa: ARG002
        """Say that there is no actor that could be asked."""
        then(ResolverVerdict(None, "this node runs without Ray, so that it can ask no actor"))


class LocalNode(Node):
    """A node that leaves the process alone when it fails, and notes why."""

    def __init__(self, spec: NodeSpec, failures: list[BaseException], disk: Disk | None = None) -> None:
        self._failures = failures
        super().__init__(spec, NoActors(), disk)

    def fail(self, error: BaseException) -> NoReturn:
        """Note the error, for the cluster to raise at its end."""
        self._failures.append(error)
        raise error
