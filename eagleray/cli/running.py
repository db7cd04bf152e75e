"""Running a command's work on an event loop, connected to a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from eagleray.cli import records
from eagleray.cli.options import Connection

if TYPE_CHECKING:
    from eagleray.cli.session import Session

Result = TypeVar("Result")


def run(connection: Connection, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Connect, work, and disconnect."""
    prepare_to_join(connection)
    # Ray takes a second to load, and `--help` needs none of it.
    from eagleray.cli import session  # noqa: PLC0415

    async def connected_work() -> Result:
        async with session.connected(connection) as connected:
            return await work(connected)

    return run_until_stopped(connected_work())


def prepare_to_join(connection: Connection) -> None:
    """Tell Ray, before it is loaded, what it has to know of the cluster that a command is about."""
    record = records.load(connection.name)
    address = connection.address or (record.address if record is not None else "")
    prepare_ray(address)
    if record is not None and record.address == address and record.ray_auth_mode:
        # Ray wants to be told whether a cluster with an address asks for its token; which one, it knows.
        os.environ.setdefault("RAY_AUTH_MODE", record.ray_auth_mode)


def prepare_ray(address: str | None) -> None:
    """Keep Ray on loopback where its cluster is there, or is to be; Ray looks once, when it is loaded."""
    if address is None or address.startswith("127."):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def run_until_stopped(work: Coroutine[Any, Any, Result]) -> Result:
    """Run on a loop of its own; SIGINT and SIGTERM cancel the work and raise KeyboardInterrupt once it has ended."""
    is_stopped = False

    async def main() -> Result:
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal is_stopped
            is_stopped = True
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not is_stopped:
            raise
        raise KeyboardInterrupt from None
