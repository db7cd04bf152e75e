"""Nodes with one rule broken, each of which a target has to catch: one for every invariant that is checked."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec import DecodeError

from eagleray.actors.kafka_server.connection import Connection
from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.actors.kafka_server.queued_bytes import QueuedBytes
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.roles.group_coordinator import GroupCoordinatorRole
from eagleray.broker import checked_file, generations
from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.log import epoch_file, reading
from eagleray.broker.log.producer_limit import ProducerLimit
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.readable_log import ReadableLog
from eagleray.broker.log.unstable_transactions import UnstableTransactions
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.transactions.initializing import IdentityServer
from tests.fuzz import honest
from tests.simulation.replacing import replacing

CORPUS = Path(__file__).parent / "corpus"
Mutation = Callable[[], AbstractContextManager[Any]]
DESCRIBE_CLUSTER = 60


def _ending_at_an_error() -> AbstractContextManager[Any]:
    """Group coordinators that end their process where a group asks for no topics."""
    original = GroupCoordinatorRole.handle

    def handle(self: GroupCoordinatorRole, events: list[Any]) -> None:
        assert not any(isinstance(event, FetchOffsets) for event in events)
        original(self, events)

    return mock.patch.object(GroupCoordinatorRole, "handle", handle)


def _failing_handler() -> AbstractContextManager[Any]:
    """A handler with a slip, as which a node answers UNKNOWN_SERVER_ERROR."""

    def handle(request: Any, call: Any) -> None:
        raise KeyError(request)

    served = SERVED[DESCRIBE_CLUSTER]
    fields = {name: getattr(served, name) for name in served.__struct_fields__}
    broken = type(served)(**fields | {"handle": handle, "is_async": False})
    return mock.patch.dict(SERVED, {DESCRIBE_CLUSTER: broken})


def _forgetting_refusals() -> AbstractContextManager[Any]:
    """Connections that leave requests unanswered which nobody could have meant."""
    return mock.patch.object(Connection, "_refuse_call", return_value=None)


def _keeping_bytes() -> AbstractContextManager[Any]:
    """Nodes that count the requests of connections that are gone."""
    return mock.patch.object(QueuedBytes, "forget", return_value=None)


def _keeping_sessions() -> AbstractContextManager[Any]:
    """Nodes that never forget a session of the direct lane."""
    return mock.patch.object(Sessions, "end", return_value=None)


def _showing_what_was_aborted() -> AbstractContextManager[Any]:
    """Logs that tell readers of no aborted transaction."""
    return replacing(reading.collect_aborted, lambda *_: [])


def _showing_what_is_open() -> AbstractContextManager[Any]:
    """Logs whose last stable offset goes beyond the high watermark."""
    return mock.patch.object(ReadableLog, "last_stable_offset", property(lambda self: self.high_watermark + 1))


def _asking_no_coordinator() -> AbstractContextManager[Any]:
    """Leaders that open a transaction for whoever writes in one, unless that is the honest work, which would notice."""
    original = PartitionLeader._must_verify

    def must_verify(self: PartitionLeader, producer: Any, batch: Any) -> bool:
        return self.partition.topic == honest.TOPIC and original(self, producer, batch)

    return mock.patch.object(PartitionLeader, "_must_verify", must_verify)


def _remembering_all_producers() -> AbstractContextManager[Any]:
    """Partitions that remember every producer that has ever written."""
    return mock.patch.object(ProducerLimit, "has_room", return_value=True)


def _recovering_other_producers() -> AbstractContextManager[Any]:
    """Partitions that remember what they never wrote: a producer of another epoch."""
    original = ProducerState.apply_data

    def apply_data(self: ProducerState, header: Any, base_offset: int, now_ms: int) -> None:
        original(self, header, base_offset, now_ms)
        if self._before is not None:
            self._entries[header.producer_id].last_timestamp_ms += 1

    return mock.patch.object(ProducerState, "apply_data", apply_data)


def _deciding_nothing() -> AbstractContextManager[Any]:
    """Partitions in which a marker ends no transaction, so that no reader ever sees more."""
    return mock.patch.object(UnstableTransactions, "decide", return_value=None)


def _giving_pools_to_whoever_says_so() -> AbstractContextManager[Any]:
    """Coordinators that believe a program that says that it has a pool."""
    return mock.patch.object(IdentityServer, "take_pool_over", IdentityServer.take_pool_over_again)


def _surprised_by_nesting() -> AbstractContextManager[Any]:
    """Readers of small files that expect every decoder to raise its own errors."""
    return mock.patch.object(checked_file, "CANNOT_DECODE", (DecodeError, UnicodeDecodeError))


def _taking_damage_for_nothing() -> AbstractContextManager[Any]:
    """Readers that take a file which cannot be read for one that was never written."""
    original = generations.read_generations

    def read_generations(*arguments: Any) -> Any:
        return generations.Generations(original(*arguments).newest, 0)

    return replacing(original, read_generations)


def _believing_any_epochs() -> AbstractContextManager[Any]:
    """Logs that take the file of their epochs for true, whatever its checksum says."""
    return mock.patch.object(epoch_file, "_may_be", return_value=True)


def _reading_by_length() -> AbstractContextManager[Any]:
    """Readers that make room by a length which a file names, whatever the file holds."""
    original = checked_file.count_in

    def count_in(text: bytes) -> int | None:
        bytearray(len(text) * 4000)[::4096] = b"x" * len(range(0, len(text) * 4000, 4096))
        return original(text)

    return replacing(original, count_in)


MUTATIONS: dict[str, dict[str, Mutation]] = {
    "kafka_server": {
        "role that ends its node": _ending_at_an_error,
        "handler that fails": _failing_handler,
        "refusal that is not sent": _forgetting_refusals,
        "bytes that are never given back": _keeping_bytes,
        "aborted records that are shown": _showing_what_was_aborted,
        "offsets out of order": _showing_what_is_open,
        "transaction without a coordinator": _asking_no_coordinator,
        "producers without a bound": _remembering_all_producers,
        "producers that recovery knows otherwise": _recovering_other_producers,
        "marker that ends nothing": _deciding_nothing,
    },
    "direct_lane": {
        "sessions that are never given back": _keeping_sessions,
        "pool for whoever says so": _giving_pools_to_whoever_says_so,
        "role that ends its node": _ending_at_an_error,
    },
    "small_files": {
        "nesting that surprises": _surprised_by_nesting,
        "damage that is taken for nothing": _taking_damage_for_nothing,
        "epochs without a checksum": _believing_any_epochs,
        "room by a length": _reading_by_length,
    },
}
"""By the targets that catch them."""


def entry_of(target: str, mutation: str) -> str:
    """Where in the corpus the input is that catches a mutation."""
    return f"{target}/{mutation.replace(' ', '-')}"
