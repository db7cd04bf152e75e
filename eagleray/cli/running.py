"""Running a command's work on an event loop, connected to a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from eagleray import cluster_records
from eagleray.cli.options import Connection
from eagleray.cli.signals import stop_signals

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
    record = _record_of(connection)
    prepare_ray(record.address if record is not None else connection.address or "")
    if record is not None and record.ray_auth_mode:
        # Ray wants to be told whether a cluster with an address asks for its token; which one, it knows.
        os.environ.setdefault("RAY_AUTH_MODE", record.ray_auth_mode)


def _record_of(connection: Connection) -> cluster_records.ClusterRecord | None:
    if not connection.address:
        return cluster_records.meant_by(connection.name or None)
    return next(
        (each for each in cluster_records.load_all() if cluster_records.is_same_ray(each.address, connection.address)),
        None,
    )


def prepare_ray(address: str | None) -> None:
    """Keep Ray on loopback where its cluster is there, or is to be; Ray looks once, when it is loaded."""
    if address is None or address.startswith("127."):
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def run_until_stopped(work: Coroutine[Any, Any, Result]) -> Result:
    """Run on a loop of its own; a signal to stop cancels the work, and raises Interrupted once it has ended."""

    async def main() -> Result:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            loop.call_soon_threadsafe(task.cancel)

        with stop_signals.stopping(stop):
            return await work

    with stop_signals.taken():
        try:
            stop_signals.check()
            return asyncio.run(main())
        except asyncio.CancelledError:
            if stop_signals.first is None:
                raise
            raise stop_signals.interrupted() from None
        finally:
            work.close()
