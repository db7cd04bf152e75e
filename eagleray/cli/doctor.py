"""`eagleray doctor`: what is wrong with a cluster or a data directory, and the command that helps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from eagleray.actors.process.host_facts import program_version
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.broker.transactions.states import UNDECIDED_NAMES
from eagleray.cli.diagnosis import ClusterState, Trouble, diagnose
from eagleray.cli.errors import UsageError
from eagleray.cli.findings import allow_many_files, print_findings
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import capitalized, counted, note, print_json
from eagleray.cli.running import run
from eagleray.client.errors import EaglerayError
from eagleray.offline.layout import NoDataDirectory, running_nodes
from eagleray.offline.verifying import Verified, verify

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer()

_ANSWER_S: Final = 20.0
_PROBLEMS_FOUND: Final = 1
_Answer = TypeVar("_Answer")


@app.command(epilog=examples("eagleray doctor", "eagleray doctor ./data", "eagleray doctor --json"))
def doctor(
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="A data directory, whose nodes do not run; without it, a cluster."),
    ] = None,
    *,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, help="Transactions that hold readers back for more seconds.")
    ] = 300.0,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Say what is wrong with a running cluster, or with a data directory, and which command helps.

    Of a cluster: nodes and voters that are away, partitions without a leader or with too few replicas in sync, logs
    that are damaged, strays, transactions that hold readers back, disks, clocks and releases. Of a directory: all that
    `eagleray storage verify` finds. Nothing is changed.

    Ends with 0 where nothing is wrong, and with 1 where something is.
    """
    if directory is not None:
        _examine_directory(directory, json=json)
        return
    state = run(Connection(name, address), lambda session: _ask(session, int(older_than * 1000)))
    found = diagnose(state)
    if json:
        print_json({"cluster_id": state.image.cluster_id, "found": found, "healthy": _is_healthy(found)})
    else:
        _print(state, found)
    if not _is_healthy(found):
        raise typer.Exit(_PROBLEMS_FOUND)


def _is_healthy(found: list[Trouble]) -> bool:
    return not any(trouble.is_problem for trouble in found)


async def _ask(session: Session, hold_ms: int) -> ClusterState:
    view, admin = session.cluster.runtime.view, session.cluster.admin
    await view.refreshed()
    image, asked_ms = view.image, _now_ms()
    nodes = await session.nodes()
    answered_ms = _now_ms()
    unanswered: list[str] = []
    served = [topic for topic in image.topics if _is_served(image, topic) and not topic.startswith("__")]
    blocking = (
        await _or_note(admin.blocking(*served), "the question what holds readers back", unanswered) if served else []
    )
    prepared: list[Any] = []
    if TRANSACTION_STATE not in image.topics or _is_served(image, TRANSACTION_STATE):
        listed = admin.list_transactions(states=UNDECIDED_NAMES)
        found = await _or_note(listed, "the question which transactions are prepared", unanswered)
        prepared = [each for each in found or () if each.prepared_ms >= 0]
    return ClusterState(
        image=image,
        nodes=nodes,
        asked_ms=asked_ms,
        answered_ms=answered_ms,
        version=program_version(),
        min_isr=await _min_isr(session, image, unanswered),
        blocking=blocking or (),
        prepared=prepared,
        unanswered=unanswered,
        hold_ms=hold_ms,
        now_ms=_now_ms(),
    )


async def _min_isr(session: Session, image: MetadataImage, unanswered: list[str]) -> dict[str, int]:
    """What the topics say themselves; where it makes a difference, the setting in force is asked for."""
    found = {name: int(topic.configs.get("min.insync.replicas", 1)) for name, topic in image.topics.items()}
    for topic in image.topics.values():
        if not topic.is_internal and any(
            len(partition.isr) < len(partition.replicas) for partition in topic.partitions
        ):
            asked = session.cluster.admin.describe_configs(topic.name)
            configs = await _or_note(asked, f"the question for the settings of {topic.name}", unanswered)
            if configs is None:
                break
            found[topic.name] = int(configs.configs.get("min.insync.replicas", 1))
    return found


async def _or_note(asked: Awaitable[_Answer], what: str, unanswered: list[str]) -> _Answer | None:
    """Return an answer; None, and a note, where there is none in time: the rest is worth knowing then, too."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await asked
    except (TimeoutError, EaglerayError):
        unanswered.append(what)
        return None


def _is_served(image: MetadataImage, topic: str) -> bool:
    return all(partition.leader != NO_NODE for partition in image.topics[topic].partitions)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print(state: ClusterState, found: list[Trouble]) -> None:
    for trouble in found:
        typer.echo(f"{'problem' if trouble.is_problem else 'notice'}: {capitalized(trouble.what)}.")
        if trouble.help:
            typer.echo(f"  {capitalized(trouble.help)}.")
    partitions = sum(len(topic.partitions) for topic in state.image.topics.values())
    looked_at = f"{counted(len(state.nodes), 'node')} and {counted(partitions, 'partition')} looked at"
    problems = sum(trouble.is_problem for trouble in found)
    typer.echo(f"{looked_at}: {counted(problems, 'problem')} found" if problems else f"{looked_at}: nothing is wrong")


# A data directory


def _examine_directory(directory: str, *, json: bool) -> None:
    allow_many_files()
    try:
        found = verify(directory)
    except NoDataDirectory as error:
        raise UsageError(f"{error}.") from None
    is_whole = all(each.is_whole for each in found)
    if json:
        print_json({"directories": [_as_json(each) for each in found], "healthy": is_whole})
    else:
        for each in found:
            _print_directory(each)
    if not is_whole:
        raise typer.Exit(_PROBLEMS_FOUND)


def _as_json(verified: Verified) -> dict[str, object]:
    return {"data_dir": verified.data_dir, "in_use": verified.in_use, "found": verified.findings}


def _print_directory(verified: Verified) -> None:
    problems = [finding for finding in verified.findings if finding.is_problem]
    print_findings(problems)
    nodes = running_nodes(verified.data_dir)
    if nodes:
        note(
            f"node {', '.join(map(str, nodes))} of {verified.data_dir} runs: `eagleray doctor` without a directory "
            f"asks it; {counted(len(verified.in_use), 'partition')} that it has open were not read"
        )
    said = f"{counted(len(problems), 'problem')} found" if problems else "nothing is wrong with them"
    typer.echo(f"{verified.data_dir}: {counted(len(verified.partitions), 'partition')} read: {said}")
    if len(verified.findings) > len(problems):
        notices = counted(len(verified.findings) - len(problems), "notice")
        note(f"`eagleray storage verify {verified.data_dir}` shows {notices} more")
