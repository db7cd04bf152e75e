"""What is wrong with a running cluster, decided from what its nodes say: each in plain words, with what helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.torn_or_rotten import Verdict
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE, ProcessRole
from eagleray.broker.metadata.topics import CLUSTER_METADATA, PartitionImage
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.cli.ending import ways_to_end
from eagleray.cli.output import ago, counted, duration
from eagleray.client.admin.descriptions import BlockingTransaction

FULL_SHARE: Final = 0.10
"""A disk with a smaller share of it left is called nearly full."""

CLOCK_SLACK_MS: Final = 2_000
"""How far the clock of a node may be off before it is worth a word: records get their times by it."""

_CUTS_WITHOUT_LOSS: Final = frozenset({str(Verdict.CUT)})
_LISTED: Final = 5
_METADATA_HELP: Final = (
    "the node does not start again with it: before that, stop the cluster and have `eagleray storage restore-metadata` "
    "make it again from what the nodes have kept; three controllers would have repaired it from each other"
)


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong, or that a person may want to know."""

    what: str
    help: str = ""
    is_problem: bool = True


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """What the nodes and coordinators of a cluster have said, all of it at about the same time."""

    image: MetadataImage
    nodes: Sequence[Mapping[str, Any]]
    asked_ms: int
    answered_ms: int
    """Between when, by the clock here, the nodes have answered."""

    version: str
    """Of the program that asks."""

    min_isr: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How many replicas have to be in sync for `acks=all`, by topic."""

    blocking: Sequence[BlockingTransaction] = ()
    prepared: Sequence[TransactionDescription] = ()
    unanswered: Sequence[str] = ()
    """Questions that got no answer in time."""

    hold_ms: int
    """A transaction that holds readers back for longer is worth a word."""

    now_ms: int


def diagnose(state: ClusterState) -> list[Trouble]:
    """Return all that is wrong, the worst first."""
    found = [trouble for check in _CHECKS for trouble in check(state)]
    return sorted(found, key=lambda trouble: not trouble.is_problem)


def _nodes(state: ClusterState) -> Iterator[Trouble]:
    for node in state.nodes:
        node_id, where = node["node_id"], _machine_of(node)
        if node.get("pid") is None:
            yield Trouble(
                what=f"node {node_id}{where} does not answer ({', '.join(node['roles'])})",
                help="Ray starts it again where its machine is there: `ray status` shows the machines, and "
                f"`eagleray logs {node_id}` on its machine why it does not start",
            )
        elif not node["registered"]:
            yield Trouble(
                what=f"node {node_id}{where} runs, and is not part of the cluster",
                help=f"`eagleray logs {node_id}` on its machine says what it waits for, or why it was refused",
            )


def _voters(state: ClusterState) -> Iterator[Trouble]:
    voters = state.image.nodes_with(str(ProcessRole.CONTROLLER))
    described = {node["node_id"]: node for node in state.nodes if node["node_id"] in voters}
    for node_id, node in described.items():
        voter = node.get("voter")
        if node.get("stopped_ruling"):
            yield Trouble(
                what=f"the controller on node {node_id} has stopped ruling: most nodes know more than its metadata log",
                help="stop the cluster and start it with the metadata log that is whole: `eagleray logs "
                f"{node_id}` on its machine names what it lacks",
            )
        if voter is not None and not voter["may_lead"]:
            yield Trouble(
                what=f"the metadata log of voter {node_id} is empty or lacks what was committed; it cannot lead",
                help="the other voters repair it as long as a majority of them is whole: `eagleray logs "
                f"{node_id}` on its machine says how far it is",
            )
    there = [node_id for node_id, node in described.items() if node.get("pid") is not None]
    if voters and 2 * len(there) <= len(voters):
        yield Trouble(
            what=f"{len(there)} of {counted(len(voters), 'voter')} answer, which is no majority: nothing can be "
            "decided, no leader be elected and no topic be created",
            help="start the machines of the others: `eagleray node list` and `ray status` show which are away",
        )


def _partitions(state: ClusterState) -> Iterator[Trouble]:
    """Partitions without a leader, with too few replicas in sync for acks=all, or with fewer than they should have."""
    leaderless, refusing, lagging = [], [], []
    for topic in state.image.topics.values():
        for number, partition in enumerate(topic.partitions):
            name = TopicPartition(topic.name, number)
            if partition.leader == NO_NODE:
                leaderless.append((name, partition))
            elif len(partition.isr) < state.min_isr.get(topic.name, 1):
                refusing.append((name, partition))
            elif len(partition.isr) < len(partition.replicas) - len(partition.adding):
                lagging.append((name, partition))
    if leaderless:
        yield Trouble(
            what=f"{_listed(leaderless)} have no leader, and serve nothing; their last replicas in sync are on "
            f"{_nodes_of(leaderless, in_sync=True)}",
            help="bring these nodes back; if they are lost for good, `eagleray topic elect "
            f"{quote(leaderless[0][0].topic)} --unclean` lets another replica lead, without what it lacks",
        )
    if refusing:
        yield Trouble(
            what=f"{_listed(refusing)} have fewer replicas in sync than min.insync.replicas, and refuse acks=all; "
            f"missing are those on {_nodes_of(refusing, in_sync=False)}",
            help=f"bring these nodes back; `eagleray topic describe {quote(refusing[0][0].topic)}` shows which are in "
            "sync",
        )
    if lagging:
        yield Trouble(
            what=f"{_listed(lagging)} have fewer replicas in sync than they should: one failure more may stop them; "
            f"missing are those on {_nodes_of(lagging, in_sync=False)}",
            help="bring these nodes back, or put the replicas elsewhere with `eagleray topic reassign "
            f"{quote(lagging[0][0].topic)}`",
        )


def _logs(state: ClusterState) -> Iterator[Trouble]:
    for node in state.nodes:
        node_id, where = node["node_id"], _machine_of(node)
        strays = set(node.get("stray_logs") or ())
        for partition, reason in (node.get("offline") or {}).items():
            if partition not in strays:
                yield Trouble(what=f"{partition} on node {node_id}{where} is offline: {reason}")
        for partition, reason in (node.get("damaged") or {}).items():
            yield Trouble(
                what=f"{partition} on node {node_id}{where} is damaged and still served, because nothing else has it: "
                f"{reason}",
                help=_METADATA_HELP
                if partition == str(TopicPartition(CLUSTER_METADATA, 0))
                else "make another replica of it in sync, or copy what can be read of it to another topic",
            )
        if node.get("held_back"):
            yield Trouble(
                what=f"node {node_id}{where} keeps {', '.join(node['held_back'])}, which by the metadata have moved to "
                "other machines, until a person accepts that they go",
                help=f"`eagleray logs {node_id}` on its machine says how",
            )
        if strays:
            data_dir = quote((node.get("disk") or {}).get("path", "DIR"))
            yield Trouble(
                what=f"node {node_id}{where} neither serves nor removes {', '.join(sorted(strays))}: the metadata do "
                "not say what they are",
                help=f"`eagleray storage strays list {data_dir}` on its machine says what is known of each, and what "
                "to do",
            )
        lost = {
            verdict: count for verdict, count in (node.get("cuts") or {}).items() if verdict not in _CUTS_WITHOUT_LOSS
        }
        if lost:
            counts = ", ".join(f"{verdict}: {count}" for verdict, count in lost.items())
            yield Trouble(
                what=f"node {node_id}{where} has cut off ends of logs when it opened them, which may have been "
                f"acknowledged ({counts})",
                help=f"`eagleray logs {node_id}` on its machine names partitions and offsets; the bytes are kept in "
                "files that end in .cut, which `eagleray storage dump` shows",
            )
        if node.get("uncertain_ends"):
            yield Trouble(
                what=f"node {node_id}{where} may have lost, with the power of its machine, what was acknowledged since "
                f"the last flush of {node['uncertain_ends']} logs that no other replica has",
                help=f"`eagleray logs {node_id}` on its machine names them, and where they end; more replicas, or "
                "flush=commit on their topics, lose nothing",
            )


def _transactions(state: ClusterState) -> Iterator[Trouble]:
    for found in state.blocking:
        since_ms = found.start_ms if found.start_ms >= 0 else found.last_timestamp_ms
        if found.transactional_id is not None and state.now_ms - since_ms < state.hold_ms:
            continue
        whose = "a transaction that no coordinator knows, and that never ends by itself,"
        if found.transactional_id is not None:
            whose = f"the transaction of {found.transactional_id!r} ({found.state})"
        yield Trouble(
            what=f"{whose} holds back readers of committed records of {found.partition} for {ago(since_ms)}; "
            f"{counted(found.records_waiting, 'record')} wait",
            help=f"to end it: `{found.end_with}`",
        )
    for prepared in state.prepared:
        if prepared.resolver is None:
            yield Trouble(
                what=f"the transaction of {prepared.transactional_id!r} is prepared for {ago(prepared.prepared_ms)}, "
                "and has no resolver: only the program that has its token ends it",
                help=ways_to_end(prepared),
            )


def _disks(state: ClusterState) -> Iterator[Trouble]:
    seen = set()
    for node in state.nodes:
        disk = node.get("disk")
        key = (node.get("machine"), disk["path"]) if disk else None
        if disk is None or key in seen or disk["free_bytes"] is None:
            continue
        if disk["free_bytes"] >= FULL_SHARE * disk["total_bytes"]:
            continue
        seen.add(key)
        yield Trouble(
            what=f"the disk of {disk['path']}{_machine_of(node)} is nearly full: "
            f"{_size(disk['free_bytes'])} of {_size(disk['total_bytes'])} are free",
            help="keep less with `eagleray topic alter TOPIC --config retention.bytes=N`, or move partitions with "
            "`eagleray node add` and `eagleray topic reassign`",
        )


def _clocks(state: ClusterState) -> Iterator[Trouble]:
    for node in state.nodes:
        time_ms = node.get("time_ms")
        if time_ms is None:
            continue
        behind_ms, ahead_ms = state.asked_ms - time_ms, time_ms - state.answered_ms
        off_ms = max(behind_ms, ahead_ms)
        if off_ms > CLOCK_SLACK_MS:
            yield Trouble(
                what=f"the clock of node {node['node_id']}{_machine_of(node)} is {off_ms / 1000:.1f} s "
                f"{'behind' if behind_ms > ahead_ms else 'ahead of'} the one here: records get their times by it",
                help="have both machines set their clocks by the same server: `chronyc tracking` or `timedatectl` "
                "there shows whether one does",
            )


def _clock_jumps(state: ClusterState) -> Iterator[Trouble]:
    for node in state.nodes:
        clock = node.get("clock")
        if clock is None or clock["may_expire"]:
            continue
        ahead = f"{duration(abs(clock['ahead_ms']) / 1000)} {'behind' if clock['ahead_ms'] < 0 else 'ahead of'}"
        left = duration(clock["accepted_in_ms"] / 1000)
        yield Trouble(
            what=f"the wall clock of node {node['node_id']}{_machine_of(node)} has jumped: it is {ahead} the time that "
            "the node had. The node keeps its time, and nothing expires by the time of day",
            help=f"if the wall clock is right, `eagleray node accept-clock {node['node_id']}`; else set it right, and "
            f"expiry goes on by itself. A clock that stays there is accepted in {left}",
        )


def _versions(state: ClusterState) -> Iterator[Trouble]:
    versions = {node["node_id"]: node["version"] for node in state.nodes if node.get("version")}
    others = {node_id: version for node_id, version in versions.items() if version != state.version}
    if others:
        named = ", ".join(f"node {node_id}: {version}" for node_id, version in sorted(others.items()))
        yield Trouble(
            what=f"this program is Eagleray {state.version}, and the cluster is not all of that release ({named})",
            help="install the same release everywhere, then stop the cluster and start it again",
        )
    known = max((node.get("metadata_version") or 0 for node in state.nodes), default=0)
    behind = [node["node_id"] for node in state.nodes if node.get("registered") and node["metadata_version"] < known]
    if behind:
        yield Trouble(
            what=f"node {', '.join(map(str, behind))} knew older metadata than others a moment ago",
            help="run this again: a node that stays behind cannot reach the controller",
            is_problem=False,
        )


def _moves(state: ClusterState) -> Iterator[Trouble]:
    image = state.image
    if image.draining:
        names = ", ".join(map(str, image.draining))
        yield Trouble(
            what=f"node {names} is drained, and gets no new partitions",
            help="`eagleray node undrain` takes that back",
            is_problem=False,
        )
    moving = [
        TopicPartition(topic.name, number)
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
        if partition.adding or partition.removing
    ]
    if moving:
        yield Trouble(
            what=f"{counted(len(moving), 'partition')} move to other nodes: {_names(moving)}",
            help=f"`eagleray topic describe {quote(moving[0].topic)}` shows how far they are",
            is_problem=False,
        )


def _unanswered(state: ClusterState) -> Iterator[Trouble]:
    for question in state.unanswered:
        yield Trouble(
            what=f"{question} got no answer in time, and was not looked at",
            help="`eagleray status` shows which nodes are there",
        )


_CHECKS: Final = (
    _nodes,
    _voters,
    _partitions,
    _logs,
    _transactions,
    _disks,
    _clock_jumps,
    _clocks,
    _versions,
    _unanswered,
    _moves,
)


def _machine_of(node: Mapping[str, Any]) -> str:
    return f" on machine {node['machine']}" if node.get("machine") else ""


def _names(partitions: Sequence[TopicPartition]) -> str:
    more = len(partitions) - _LISTED
    return ", ".join(map(str, partitions[:_LISTED])) + (f" and {more} more" if more > 0 else "")


def _listed(found: Sequence[tuple[TopicPartition, PartitionImage]]) -> str:
    return f"{counted(len(found), 'partition')} ({_names([name for name, _ in found])})"


def _nodes_of(found: Sequence[tuple[TopicPartition, PartitionImage]], *, in_sync: bool) -> str:
    nodes = {
        node_id for _, partition in found for node_id in partition.replicas if (node_id in partition.isr) is in_sync
    }
    return f"node {', '.join(map(str, sorted(nodes)))}" if nodes else "no node that is known"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB"
