"""The admin's part about replicas: where they are, where they should be, and which of them leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eagleray.actors.lanes.link import Reply
from eagleray.actors.lanes.messages import AcceptClock, ClockAccepted
from eagleray.broker.controller.replica_events import (
    DrainAnswered,
    DrainNodes,
    ElectLeaders,
    ListReassignments,
    PartitionMove,
    PartitionResult,
    Reassignment,
    ReassignPartitions,
)
from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.admin.descriptions import NodeDescription
from eagleray.client.calls import Question, call_with_retries, error_in
from eagleray.client.controller_calls import ask_controller
from eagleray.client.errors import EaglerayError, ReplicasRefused, RequestTimedOut, RetriableError
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode


class ReplicaAdmin:
    """Moves replicas, empties nodes, and has the preferred replicas lead.

        await admin.reassign_partitions({TopicPartition("orders", 0): [0, 100]})
        while await admin.list_reassignments():
            await asyncio.sleep(1)

    Owns: nothing. Whatever it begins goes on without it.
    """

    def __init__(self, runtime: ClientRuntime, retry_policy: RetryPolicy) -> None:
        self._runtime = runtime
        self._retry_policy = retry_policy

    # Moves

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin to move partitions to these nodes, the preferred leader first; None takes a move back.

        Raises ReplicasRefused where some cannot be moved like that; the others are moved.
        """
        wanted = validation.reassignments(targets)
        moves = tuple(PartitionMove(partition, nodes) for partition, nodes in wanted.items())
        answer = await self._ask_controller("moving replicas", Question(ReassignPartitions, moves))
        taken_back = {partition for partition, nodes in wanted.items() if nodes is None}
        _raise_refused(
            "moving replicas",
            # Whether a move was taken back by an attempt that got no answer, or had ended by then, comes to the same.
            (
                result
                for result in answer.results
                if result.error_code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS or result.partition not in taken_back
            ),
        )
        await self._runtime.view.refreshed()

    async def list_reassignments(self, *partitions: TopicPartition) -> list[Reassignment]:
        """Return what is being moved, of some partitions or of all."""
        wanted = validation.partitions(partitions) or None
        answer = await self._ask_controller("listing moves of replicas", Question(ListReassignments, wanted))
        return [*answer.reassignments]

    # Nodes

    async def list_nodes(self) -> list[NodeDescription]:
        """Return the nodes of the cluster, whether they have come or not, and how much each has to do."""
        view = self._runtime.view
        await view.refreshed()
        image = view.image
        return [
            NodeDescription(
                node_id,
                node.machine,
                tuple(map(str, node.roles)),
                node_id in image.nodes,
                node_id in image.draining,
                len(image.led_by(node_id)),
                len(image.kept_by(node_id)),
            )
            for node_id, node in sorted(image.plan.items())
        ]

    async def drain_node(self, node: int | str) -> int:
        """Begin to move everything away from a node, or from all nodes of a machine; return how many partitions.

        It is given nothing new until `undrain_node` is called, or it leaves the cluster. `kept_by` says what is left.
        """
        answer = await self._drain(node, undo=False)
        await self._runtime.view.refreshed()
        return answer.partitions

    async def undrain_node(self, node: int | str) -> None:
        """Let a node, or all nodes of a machine, have replicas again; moves that are under way go on."""
        await self._drain(node, undo=True)

    async def accept_clock(self, node: int | str) -> dict[int, int]:
        """Say that the wall clock of a node, or of all nodes of a machine, is right, although it has jumped.

        What is old by it expires from then on. Returns by how many milliseconds the time of each node was set.
        """
        node = validation.node_or_machine(node)
        view = self._runtime.view
        await view.refreshed()
        plan = view.image.plan.values()
        node_ids = sorted(each.node_id for each in plan if node in (each.node_id, each.machine))
        return {node_id: (await self._accept_clock_of(node_id)).set_by_ms for node_id in node_ids}

    async def _accept_clock_of(self, node_id: int) -> ClockAccepted:
        return await call_with_retries(
            self._runtime,
            lambda: node_id,
            f"accepting the clock of node {node_id}",
            Question(AcceptClock),
            retry_policy=self._retry_policy,
        )

    async def _drain(self, node: int | str, *, undo: bool) -> DrainAnswered:
        node = validation.node_or_machine(node)
        meant = f"node {node}" if isinstance(node, int) else f"machine {node!r}"
        doing = f"letting {meant} have replicas again" if undo else f"draining {meant}"
        machine, node_id = (None, node) if isinstance(node, int) else (node, None)
        return await self._ask_controller(doing, Question(DrainNodes, machine, node_id, undo))

    async def kept_by(self, node: int | str) -> set[TopicPartition]:
        """Return the partitions that a node, or a machine, has replicas of."""
        node = validation.node_or_machine(node)
        view = self._runtime.view
        await view.refreshed()
        plan = view.image.plan.values()
        nodes = [each.node_id for each in plan if node in (each.node_id, each.machine)]
        return {partition for node_id in nodes for partition in view.image.kept_by(node_id)}

    # Leaders

    async def elect_leaders(self, *partitions: TopicPartition, unclean: bool = False) -> list[TopicPartition]:
        """Have the first replica lead each partition, of some or of all; return those whose leader is another then.

        With `unclean`, partitions without a leader are meant: any replica that lives leads them, and what it does not
        have is lost. Raises ReplicasRefused where no replica can be elected; the other partitions get their leaders.
        """
        question = Question(ElectLeaders, validation.partitions(partitions) or None, bool(unclean))
        answer = await self._ask_controller("electing leaders", question)
        elected = [result.partition for result in answer.results if result.error_code is ErrorCode.NONE]
        await self._until_led(elected, unclean=unclean)
        refused = (result for result in answer.results if result.error_code is not ErrorCode.ELECTION_NOT_NEEDED)
        _raise_refused("electing leaders", refused)
        return elected

    async def _until_led(self, partitions: Sequence[TopicPartition], *, unclean: bool) -> None:
        """Wait until leaders have handed over, which they are asked to with their next heartbeats."""
        runtime, waiting = self._runtime, set(partitions)
        deadline_ms = runtime.now_ms() + self._retry_policy.total_ms
        while waiting:
            await runtime.view.refreshed()
            states = {partition: runtime.view.image.find(partition) for partition in waiting}
            waiting = {
                partition
                for partition, state in states.items()
                if state is not None and (state.leader < 0 if unclean else state.leader != state.replicas[0])
            }
            if waiting and runtime.now_ms() >= deadline_ms:
                names = ", ".join(map(str, sorted(waiting)))
                raise RequestTimedOut(f"electing leaders: those of {names} have not handed over.")

    async def _ask_controller(self, doing: str, question: Question[Reply]) -> Reply:
        return await ask_controller(
            self._runtime, doing, question, retry_policy=self._retry_policy, exception_for=_replica_error
        )


def _replica_error(error_code: ErrorCode, doing: str, reply: object) -> EaglerayError:
    """Say what the controller has said, where it is not that one should try again."""
    error = error_in(error_code, doing, reply)
    return error if isinstance(error, RetriableError) else ReplicasRefused(f"{error.message}.", error_code)


def _raise_refused(doing: str, results: Iterable[PartitionResult]) -> None:
    refused = [result for result in results if result.error_code is not ErrorCode.NONE]
    if refused:
        reasons = "; ".join(f"{each.partition}: {each.message or each.error_code.message}" for each in refused)
        raise ReplicasRefused(f"{doing}: {reasons}.", refused[0].error_code)
