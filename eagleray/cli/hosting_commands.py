"""`eagleray start` and `eagleray stop`."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import typer

from eagleray import cluster_records as records
from eagleray.actors.common.settings import check_settings
from eagleray.actors.process.ports import PortRange
from eagleray.cli import background
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Name, NewName, Settings, examples, settings_of
from eagleray.cli.output import note
from eagleray.cli.running import prepare_ray, prepare_to_join, run
from eagleray.client.settings import LayoutName
from eagleray.location import COMMAND

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer()

_STOP_S: Final = 60.0
_HOST: Final = "127.0.0.1"
_PORT: Final = 9092
_MANY_CORES: Final = 8
"""From so many on, roles in processes of their own cost little beside what they gain."""


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `eagleray start` was asked for."""

    connection: Connection
    listen: str | None = None
    advertise: str | None = None
    node_ports: str | None = None
    data_dir: str
    layout: str = "separate"
    leaders: int | None = None
    coordinators: int | None = None
    machines: int | Literal["all"] | None = None
    without: tuple[str, ...] = ()
    wait_s: float = 0.0
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    unless_running: bool = False


# How `start` is told what to do

Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where clients reach it; port 0 takes a free one.",
        show_default=f"{_HOST}:{_PORT}, or with several machines port {_PORT} of each",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option("--advertise", metavar="HOST", help="What clients are told to connect to, if not that of --listen."),
]
NodePorts = Annotated[
    str | None,
    typer.Option(
        "--node-ports", metavar="LOW-HIGH", help="Where the other nodes listen, for a firewall; else at any port."
    ),
]
Leaders = Annotated[
    int | None, typer.Option("--leaders", min=1, help="How many processes lead partitions; one a core by default.")
]
Coordinators = Annotated[
    int | None,
    typer.Option("--coordinators", min=1, help="How many processes coordinate transactions; one a core, up to 4."),
]
Machines = Annotated[
    str | None,
    typer.Option(
        "--machines",
        metavar="N",
        help="How many nodes of the Ray cluster it is spread over, or all.",
        show_default="those of the data directory, or 1",
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="ADDRESS",
        help="A machine of the cluster that is gone; its nodes start when it is back.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", metavar="SECONDS", min=0, help="How long to wait for machines that have not joined Ray yet."
    ),
]
FlushWhen = Annotated[
    Literal["commit", "os"] | None,
    typer.Option("--flush", help="Write to the disk before each acknowledgement, or when the system does."),
]


@app.command(
    epilog=examples(
        "eagleray start --data-dir ./data",
        "eagleray start --data-dir ./data --detach && eagleray status && eagleray stop",
        "eagleray start --data-dir ./data --listen 0.0.0.0:9092 --advertise broker.example.com",
        "eagleray start --data-dir /mnt/disk/eagleray --address auto --detach --flush commit",
        "eagleray start --data-dir /mnt/disk/eagleray --address auto --detach --unless-running",
        "eagleray start --data-dir /mnt/disk/eagleray --address auto --detach --machines 3 --wait 600",
    )
)
def start(
    *,
    data_dir: Annotated[str, typer.Option("--data-dir", metavar="DIR", help="Where the cluster keeps its records.")],
    listen: Listen = None,
    advertise: Advertise = None,
    node_ports: NodePorts = None,
    layout: Annotated[
        LayoutName | None,
        typer.Option(
            "--layout", help="Each role a process of its own, or all roles in one per core.", show_default="separate"
        ),
    ] = None,
    leaders: Leaders = None,
    coordinators: Coordinators = None,
    machines: Machines = None,
    without: Without = None,
    wait: Wait = 0.0,
    flush: FlushWhen = None,
    config: Settings = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it runs; `eagleray stop` ends it.")] = False,
    unless_running: Annotated[
        bool, typer.Option("--unless-running", help="Leave a cluster of this name alone that runs, and succeed.")
    ] = False,
    name: NewName = "default",
    address: Address = None,
) -> None:
    """Start a cluster, and run it until Ctrl-C.

    Without --address it starts a small Ray of its own on this machine; with it, it joins one that runs. Prints
    `bootstrap.servers=HOST:PORT` when it is ready. The same data directory brings back the same cluster.

    With --machines it is on several nodes of the Ray cluster, this one first, and each keeps its part in --data-dir on
    its own disk.

    Once it runs, Ctrl-C, SIGTERM and a closed terminal stop it in good order, with exit code 0; before that, and in all
    other commands, the exit code is 128 + the signal. A second signal ends it at once.
    """
    request = StartRequest(
        connection=Connection(name, address),
        listen=listen,
        advertise=advertise,
        node_ports=node_ports,
        data_dir=_data_dir(data_dir),
        layout=layout or "separate",
        leaders=leaders,
        coordinators=coordinators,
        machines=_machines(machines),
        without=tuple(without or ()),
        wait_s=wait,
        settings=settings_of(config) | ({} if flush is None else {"flush": flush}),
        unless_running=unless_running,
    )
    with _new_directory(request.data_dir):
        _start(request, detach=detach, hints=layout is None)


@contextmanager
def _new_directory(data_dir: str) -> Iterator[None]:
    """Where a start fails, leave no directory behind that was not there before and holds nothing."""
    paths = [Path(data_dir), *Path(data_dir).parents]
    missing = [path for path in paths if not path.exists()]
    try:
        yield
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


def _start(request: StartRequest, *, detach: bool, hints: bool) -> None:
    name, address = request.connection.name, request.connection.address
    running = kept_here(name) if address is None else None
    if request.unless_running and running is not None:
        print_ready(running.bootstrap)
        return
    if not (request.unless_running and address):
        check(request)
    if hints:
        _hint_at_layout(request.data_dir)
    if detach and address is None:
        print_ready(background.start(request, background.command_of(request), starting))
        note(f"cluster {name} runs in the background; `eagleray stop --name {name}` ends it")
        return
    prepare_ray(address)
    # Ray takes a second to load, and what was checked so far needs none of it.
    from eagleray.cli import hosting  # noqa: PLC0415

    hosting.host(request, print_ready, starting, detach=detach)


def starting(what: str) -> None:
    """Say on the standard error what a start is doing."""
    note(f"{background.PROGRESS}{what}")


def _hint_at_layout(data_dir: str) -> None:
    """Say once, when a cluster is new, that a small machine has more of the other layout."""
    cores = len(os.sched_getaffinity(0))
    is_new = not os.path.exists(os.path.join(data_dir, "nodes")) and not os.path.exists(
        os.path.join(data_dir, "machines")
    )
    if cores < _MANY_CORES and is_new:
        note(f"this machine has {cores} cores: `--layout colocated` halves start-up and memory")


def print_ready(bootstrap: str) -> None:
    """Say where clients reach the cluster, now that it runs."""
    typer.echo(f"bootstrap.servers={bootstrap}")
    typer.get_text_stream("stdout").flush()


def kept_here(name: str) -> records.ClusterRecord | None:
    """The cluster of this name that a process on this machine keeps."""
    return next((record for record in records.named(name) if record.keeper_pid), None)


def check(request: StartRequest) -> None:
    """Complain now about what would go wrong in some other process later."""
    running = kept_here(request.connection.name)
    if running is not None:
        raise UsageError(
            f"a cluster named {running.name!r} runs already (pid {running.keeper_pid}, {running.data_dir}); "
            f"end it with `eagleray stop --name {running.name}`, or choose another --name."
        )
    check_settings(request.settings)
    if request.listen is not None or not is_spread(request):
        _check_port(request.listen or f"{_HOST}:{_PORT}")
    ports_of(request)
    _check_directory(request.data_dir)


def _machines(text: str | None) -> int | Literal["all"] | None:
    if text is None:
        return None
    if text == "all":
        return "all"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--machines is {text!r}; expected a number from 1 on, or all.")
    return int(text)


def is_spread(request: StartRequest) -> bool:
    """Whether the cluster may be on several machines, by what was asked for or by what its data directory says."""
    return request.machines not in (None, 1) or os.path.exists(os.path.join(request.data_dir, "machines"))


def listen_at(request: StartRequest) -> tuple[str | None, int]:
    """Where clients reach it: at the address of each machine where none was named."""
    if request.listen is None:
        return None if is_spread(request) else _HOST, _PORT
    host, _, port = request.listen.rpartition(":")
    return host, int(port)


def ports_of(request: StartRequest) -> PortRange | None:
    """The ports that nodes may take."""
    try:
        return None if request.node_ports is None else PortRange.parse(request.node_ports)
    except ValueError as error:
        raise UsageError(f"--node-ports: {error}.") from None


def _check_port(listen: str) -> None:
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen is {listen!r}; expected HOST:PORT, for example 127.0.0.1:9092.")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except (OSError, TypeError) as error:
        # Python raises the second where the host cannot be a name, with an empty part beside one that is not ASCII.
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot listen at {listen} ({reason}); choose another --listen, or end who has it.") from None


def _data_dir(text: str) -> str:
    """The whole path; without any text it would be the working directory, which is never what was meant."""
    if not text.strip():
        raise UsageError("--data-dir is empty; expected the directory in which the cluster keeps its records.")
    return os.path.abspath(text)


def _check_directory(data_dir: str) -> None:
    try:
        os.makedirs(data_dir, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the data directory {data_dir} ({error.strerror}); choose another.") from None
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise UsageError(f"the data directory {data_dir} is not writable for this user; choose another.")
    holder = background.locked_by(data_dir)
    if holder is not None:
        raise UsageError(
            f"the data directory {data_dir} is in use by a running cluster ({holder} is locked); "
            "stop that one first, or choose another --data-dir."
        )


@app.command(epilog=examples("eagleray stop", "eagleray stop --name billing"))
def stop(name: Name = "", address: Address = None) -> None:
    """Stop a cluster in good order; its data stay where they are."""
    connection = Connection(name, address)
    record = _keeper_of(connection)
    if record is None:
        stopped, at = run(connection, _stop)
    elif records.end_keeper(record, _STOP_S):
        stopped, at = record.name, record.address
    else:
        raise UsageError(
            f"process {record.keeper_pid}, which keeps cluster {record.name!r}, has not ended in {_STOP_S:g} s."
        )
    records.remove(stopped, at)
    note(f"stopped cluster {stopped}")


def _keeper_of(connection: Connection) -> records.ClusterRecord | None:
    """The record of the cluster that is meant, where a process of this machine keeps it: the Ray cluster ends too."""
    name = connection.name or None
    if not any(record.keeper_pid and name in (None, record.name) for record in records.load_all()):
        return None
    prepare_to_join(connection)
    from eagleray.locating import locate  # noqa: PLC0415 - loads Ray

    location = locate(name, connection.address, COMMAND)
    return None if location.credentials is not None else records.kept(location.name, location.address)


async def _stop(session: Session) -> tuple[str, str]:
    await session.stop()
    return session.name, session.address
