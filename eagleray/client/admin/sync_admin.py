"""The blocking admin: the asyncio one, on a loop in the background."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.loop_thread import LoopThread

Fields = ParamSpec("Fields")
Result = TypeVar("Result")


def _blocking(
    method: Callable[Concatenate[AsyncAdmin, Fields], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Admin, Fields], Result]:
    """Make a method that runs one of the asyncio admin to its end, with the same arguments and documentation."""

    @functools.wraps(method)
    def run(self: Admin, /, *fields: Fields.args, **named: Fields.kwargs) -> Result:
        return self._thread.run(method(self._admin, *fields, **named))

    return run


class Admin:
    """Creates, changes, describes and deletes what a cluster holds, for threads; see `AsyncAdmin`."""

    def __init__(self, thread: LoopThread, admin: AsyncAdmin) -> None:
        self._thread = thread
        self._admin = admin

    create_topic = _blocking(AsyncAdmin.create_topic)
    delete_topic = _blocking(AsyncAdmin.delete_topic)
    grow_topic = _blocking(AsyncAdmin.grow_topic)
    alter_topic = _blocking(AsyncAdmin.alter_topic)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topic = _blocking(AsyncAdmin.describe_topic)
    describe_configs = _blocking(AsyncAdmin.describe_configs)
    delete_records = _blocking(AsyncAdmin.delete_records)
    list_offsets = _blocking(AsyncAdmin.list_offsets)
    reassign_partitions = _blocking(AsyncAdmin.reassign_partitions)
    list_reassignments = _blocking(AsyncAdmin.list_reassignments)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    list_nodes = _blocking(AsyncAdmin.list_nodes)
    drain_node = _blocking(AsyncAdmin.drain_node)
    undrain_node = _blocking(AsyncAdmin.undrain_node)
    accept_clock = _blocking(AsyncAdmin.accept_clock)
    kept_by = _blocking(AsyncAdmin.kept_by)
    set_password = _blocking(AsyncAdmin.set_password)
    remove_password = _blocking(AsyncAdmin.remove_password)
    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_group = _blocking(AsyncAdmin.describe_group)
    alter_group_offsets = _blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = _blocking(AsyncAdmin.delete_group_offsets)
    delete_group = _blocking(AsyncAdmin.delete_group)
    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transaction = _blocking(AsyncAdmin.describe_transaction)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
    blocking = _blocking(AsyncAdmin.blocking)
    find_hanging = _blocking(AsyncAdmin.find_hanging)
    abort_hanging = _blocking(AsyncAdmin.abort_hanging)

    def close(self) -> None:
        """Do nothing: an admin owns nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
