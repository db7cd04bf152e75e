"""`eagleray topic`: create, list, describe, alter and delete topics, and say where their replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topic_configs import TopicConfig, check_keys
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, Settings, Yes, examples, settings_of
from eagleray.cli.output import counted, note, print_facts, print_json, print_rows, print_table
from eagleray.cli.running import run
from eagleray.client.admin.descriptions import PartitionDescription, TopicConfigs, TopicDescription

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, change and delete topics.")

Topic = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


@app.command(
    epilog=examples(
        "eagleray topic create orders --partitions 6",
        "eagleray topic create payments --replication-factor 3 --config min.insync.replicas=2",
        "eagleray topic create prices --config cleanup.policy=compact --config segment.ms=60000",
    )
)
def create(
    topic: Topic,
    *,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="How many; by default what the cluster says.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", "-r", min=1, help="On how many machines; by default what the cluster says."
        ),
    ] = None,
    config: Settings = None,
    name: Name = "",
    address: Address = None,
) -> None:
    """Create a topic."""
    settings = settings_of(config)
    # Checked here as well: the cluster refuses what it does not know, but here there is room to say what to write.
    TopicConfig.parse(settings)

    async def work(session: Session) -> int:
        await session.cluster.admin.create_topic(
            topic, partitions=partitions or -1, replication_factor=replication_factor or -1, configs=settings
        )
        return await session.require_topic(topic)

    count = run(Connection(name, address), work)
    note(f"created topic {topic} with {counted(count, 'partition')}")


@app.command("list", epilog=examples("eagleray topic list --json"))
def list_topics(
    *,
    internal: Annotated[bool, typer.Option("--internal", help="Show the cluster's own topics too.")] = False,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """List the topics and how many partitions each has."""
    topics = run(Connection(name, address), lambda session: session.cluster.admin.list_topics(internal=internal))
    if json:
        print_json([{"name": topic, "partitions": count} for topic, count in topics.items()])
    else:
        print_table(("topic", "partitions"), topics.items(), empty="there are no topics")


@app.command(epilog=examples("eagleray topic describe orders"))
def describe(topic: Topic, *, json: Json = False, name: Name = "", address: Address = None) -> None:
    """Show the partitions of a topic, where each stands, and the topic's settings.

    `undecided` is how many offsets are held back from readers of committed records by transactions that are open.
    """

    async def work(session: Session) -> tuple[TopicDescription, TopicConfigs]:
        admin = session.cluster.admin
        return await admin.describe_topic(topic), await admin.describe_configs(topic)

    description, configs = run(Connection(name, address), work)
    if json:
        described = msgspec.to_builtins(description)
        for row, partition in zip(described["partitions"], description.partitions, strict=True):
            row["undecided"] = partition.undecided
        print_json(described | {"configs": configs.configs, "explicit": configs.explicit})
    else:
        _print_description(description, configs)


def _print_description(description: TopicDescription, configs: TopicConfigs) -> None:
    print_facts(
        {
            "topic": description.name,
            "id": description.topic_id,
            "settings": ", ".join(f"{key}={configs.configs[key]}" for key in configs.explicit)
            or "all as the cluster's",
        }
    )
    print_rows(map(_row, description.partitions), empty="it has no partitions")


def _row(partition: PartitionDescription) -> dict[str, object]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "epoch": partition.leader_epoch,
        "replicas": _nodes(partition.replicas),
        "in sync": _nodes(partition.isr),
        "moving": _moving(partition),
        "start": partition.log_start_offset,
        "last stable": partition.last_stable_offset,
        "high watermark": partition.high_watermark,
        "undecided": partition.undecided,
        "bytes": partition.size_bytes,
    }


def _nodes(node_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, node_ids))


def _moving(partition: PartitionDescription) -> str | None:
    coming = [f"+{node_id}" for node_id in partition.adding]
    return " ".join([*coming, *(f"-{node_id}" for node_id in partition.removing)]) or None


@app.command(
    epilog=examples(
        "eagleray topic alter orders --config retention.ms=3600000 --delete-config segment.ms",
        "eagleray topic alter orders --partitions 12",
    )
)
def alter(
    topic: Topic,
    *,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="KEY", help="Take a setting back to its default.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Grow the topic to this many partitions.")
    ] = None,
    name: Name = "",
    address: Address = None,
) -> None:
    """Change a topic's settings, or give it more partitions."""
    settings = settings_of(config)
    TopicConfig.parse(settings)
    check_keys(delete_config or ())
    changes: dict[str, str | None] = {**settings, **dict.fromkeys(delete_config or ())}
    if not changes and partitions is None:
        raise UsageError("nothing to change; expected --config KEY=VALUE, --delete-config KEY or --partitions N.")

    async def work(session: Session) -> None:
        await session.require_topic(topic)
        admin = session.cluster.admin
        if changes:
            await admin.alter_topic(topic, changes)
        if partitions is not None:
            await admin.grow_topic(topic, partitions)

    run(Connection(name, address), work)
    note(f"changed topic {topic}")


Partition = Annotated[int, typer.Option("--partition", min=0, help="The partition.")]


@app.command(
    epilog=examples(
        "eagleray topic reassign orders --partition 0 --replicas 0,100,200",
        "eagleray topic reassign orders --partition 0 --cancel",
    )
)
def reassign(
    topic: Topic,
    *,
    partition: Partition,
    replicas: Annotated[
        str | None,
        typer.Option(metavar="NODE,…", help="The nodes that are to keep it, the preferred leader first."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Take a move back that is under way.")] = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Move the replicas of a partition to other nodes, or give it more or fewer of them.

    The new replicas are filled first, and the others go when these are in sync; `eagleray topic describe` shows how far
    that is. Nothing waits meanwhile.
    """
    if (replicas is None) != cancel:
        raise UsageError("expected either --replicas NODE,… or --cancel.")
    target = None if replicas is None else _node_ids(replicas)

    async def work(session: Session) -> None:
        await session.require_topic(topic, partition)
        await session.cluster.admin.reassign_partitions({TopicPartition(topic, partition): target})

    run(Connection(name, address), work)
    where = "back to where it was" if target is None else f"to {_nodes(target)}"
    note(f"partition {partition} of {topic} is being moved {where}")


def _node_ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--replicas is {text!r}; expected ids of nodes, for example 0,100,200.") from None


@app.command(
    epilog=examples("eagleray topic elect orders", "eagleray topic elect orders --partition 3 --unclean --yes")
)
def elect(
    topic: Topic,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="The partition; by default all of the topic.")
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Where no replica leads, take any that lives: records may be lost.")
    ] = False,
    yes: Yes = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Have the first replica of each partition lead it."""
    if unclean and not yes:
        question = f"Let replicas of {topic} lead that may lack records which were acknowledged, and lose these?"
        typer.confirm(question, abort=True, err=True)

    async def work(session: Session) -> list[TopicPartition]:
        count = await session.require_topic(topic, partition)
        numbers = range(count) if partition is None else (partition,)
        partitions = (TopicPartition(topic, number) for number in numbers)
        return await session.cluster.admin.elect_leaders(*partitions, unclean=unclean)

    elected = run(Connection(name, address), work)
    note(f"{counted(len(elected), 'partition')} of {topic} got another leader")


@app.command(epilog=examples("eagleray topic delete orders --yes"))
def delete(topic: Topic, *, yes: Yes = False, name: Name = "", address: Address = None) -> None:
    """Delete a topic and every record in it."""

    async def work(session: Session) -> None:
        await session.require_topic(topic)
        await session.cluster.admin.delete_topic(topic)

    connection = Connection(name, address)
    if not yes:
        partitions = counted(run(connection, lambda session: session.require_topic(topic)), "partition")
        typer.confirm(f"Delete topic {topic} with {partitions} and all its records?", abort=True, err=True)
    run(connection, work)
    note(f"deleted topic {topic}")
