"""Running a cluster: from joining Ray to the last process that has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from eagleray.actors.contact import Contact
from eagleray.actors.finding import ClusterNotFound
from eagleray.actors.finding import find_cluster as find_quietly
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.machines import CannotStart
from eagleray.actors.starting import bootstrap_nodes, stop_cluster
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.cli import records, session
from eagleray.cli.complaints import Complaint
from eagleray.cli.hosting_commands import StartRequest, check, listen_at, ports_of
from eagleray.cli.options import Connection
from eagleray.connecting import StartOptions, start_nodes

_START_S: Final = 180.0
_ASK_S: Final = 5.0
_RETRY_S: Final = 0.5
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

OnReady = Callable[[str], None]


def host(request: StartRequest, on_ready: OnReady, *, detach: bool) -> None:
    """Start a cluster; unless it is to run on by itself, keep it until a signal comes, then stop it in good order."""
    # A signal while Ray starts must not leave half of it behind: it counts once there is something to stop.
    with noted_signals() as stop_wanted, session.joined_ray(request.connection.address):
        try:
            asyncio.run(_host(request, on_ready, stop_wanted, detach=detach))
        finally:
            # The loop has put its own handlers away; a second Ctrl-C must not keep Ray from ending.
            for number in _STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)


@contextmanager
def noted_signals() -> Iterator[threading.Event]:
    """Take note of signals to stop, in the place of ending at once."""
    noted = threading.Event()
    before = {number: signal.signal(number, lambda *_: noted.set()) for number in _STOP_SIGNALS}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _host(request: StartRequest, on_ready: OnReady, stop_wanted: threading.Event, *, detach: bool) -> None:
    stopping = asyncio.Event()
    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if stop_wanted.is_set():
        return
    running = await _find_running(request)
    if running is not None:
        _leave_alone(request)
        on_ready(_bootstrap(running))
        return
    check(request)
    starting = asyncio.create_task(_start(request))
    waiting = asyncio.create_task(stopping.wait())
    try:
        async with asyncio.timeout(request.wait_s + _START_S):
            await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            bootstrap = _bootstrap(starting.result())
            records.save(_record(request, bootstrap, detach=detach))
            on_ready(bootstrap)
            if detach:
                return
            await waiting
    except TimeoutError:
        raise Complaint(
            f"the cluster has not come up within {request.wait_s + _START_S:g} s; Ray's logs say why."
        ) from None
    finally:
        starting.cancel()
        waiting.cancel()
        await asyncio.gather(starting, waiting, return_exceptions=True)
        if not (detach and starting.done() and not starting.cancelled() and starting.exception() is None):
            await _stop(request)


async def _find_running(request: StartRequest) -> Contact | None:
    """Find the cluster if it runs already; where that is fine, give Ray the time to start its nodes again.

    A head that remembers its actors starts them when it is back itself.
    """
    patience_s = request.wait_s + _START_S if request.unless_running else _ASK_S
    with suppress(ClusterNotFound, TimeoutError):
        async with asyncio.timeout(patience_s):
            while True:
                with suppress(Unanswered):
                    return await find_quietly(request.connection.name)
                await asyncio.sleep(_RETRY_S)
    return None


def _leave_alone(request: StartRequest) -> None:
    name = request.connection.name
    if not request.unless_running:
        raise Complaint(
            f"a cluster named {name!r} runs already on this Ray cluster; stop it with `eagleray stop --name {name}`, "
            "or choose another --name."
        )


async def _start(request: StartRequest) -> Contact:
    host_name, port = listen_at(request)
    try:
        return await start_nodes(
            StartOptions(
                name=request.connection.name,
                data_dir=request.data_dir,
                layout=request.layout,
                leaders=request.leaders,
                coordinators=request.coordinators,
                config=request.settings,
                host=host_name,
                advertised_host=request.advertise,
                port=port,
                port_range=ports_of(request),
                machines=request.machines,
                without=request.without,
                wait_s=request.wait_s,
            )
        )
    except CannotStart as error:
        raise Complaint(str(error)) from error


def _bootstrap(contact: Contact) -> str:
    """Where clients begin, who know nothing else of the cluster; a machine that is gone is left out."""
    nodes = contact.image.nodes
    known = [nodes[node_id] for node_id in bootstrap_nodes(contact.image.plan.values()) if node_id in nodes]
    return ",".join(f"{node.host}:{node.port}" for node in known)


def _record(request: StartRequest, bootstrap: str, *, detach: bool) -> records.ClusterRecord:
    keeper_pid = 0 if detach else os.getpid()
    return records.ClusterRecord(
        name=request.connection.name,
        address=session.ray_address(),
        data_dir=request.data_dir,
        bootstrap=bootstrap,
        ray_auth_mode=os.environ.get("RAY_AUTH_MODE", ""),
        keeper_pid=keeper_pid,
        keeper_started=records.started_at(keeper_pid) if keeper_pid else 0,
    )


async def _stop(request: StartRequest) -> None:
    """Stop what was started, as far as it got."""
    name = request.connection.name
    records.remove(name)
    try:
        async with asyncio.timeout(_ASK_S):
            image = (await find_quietly(name)).image
    except (ClusterNotFound, TimeoutError, Unanswered):
        image = EMPTY_IMAGE
    await asyncio.to_thread(stop_cluster, name, image)


@asynccontextmanager
async def temporary_cluster(settings: dict[str, str]) -> AsyncIterator[session.Session]:
    """A cluster of its own for a while, whose data go when it goes; Ray has to be joined."""
    name = f"temporary-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="eagleray-data-") as data_dir:
        request = StartRequest(
            connection=Connection(name), listen="127.0.0.1:0", data_dir=data_dir, layout="colocated", settings=settings
        )
        try:
            contact = await _start(request)
            async with session.clients_of(name, contact) as cluster:
                yield session.Session(name, cluster)
        finally:
            await _stop(request)
