"""Nodes with one rule about branches broken, and partitions that forget what they must not."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.transactions import requests
from eagleray.broker.transactions.branches import server
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import BatchHeader, EndTransactionMarker, RecordBatch


def _trusting_strangers() -> AbstractContextManager[Any]:
    """A leader that takes what a producer sends of which it knows nothing, without asking its coordinator."""
    must_verify = PartitionLeader._must_verify

    def must(self: PartitionLeader, producer: ProducerIdentity, batch: RecordBatch) -> bool:
        return self.log.producers.get(producer.producer_id) is not None and must_verify(self, producer, batch)

    return mock.patch.object(PartitionLeader, "_must_verify", must)


def _confirming_what_is_over() -> AbstractContextManager[Any]:
    """A coordinator that lets a branch be written to which it remembers, and which is over."""
    stack = ExitStack()
    for module in (requests, server):
        stack.enter_context(mock.patch.object(module, "refusal_to_write", return_value=ErrorCode.NONE))
    return stack


def _taking_any_producer() -> AbstractContextManager[Any]:
    """A coordinator that takes a branch which it has forgotten for the owner of the transactional id."""
    is_held_by = Snapshot.is_held_by

    def is_held(self: Snapshot, producer: ProducerIdentity) -> bool:
        return producer.epoch == 0 or is_held_by(self, producer)

    return mock.patch.object(Snapshot, "is_held_by", is_held)


def _forgetting_what_is_open() -> AbstractContextManager[Any]:
    """A partition that forgets a producer before its transaction has ended."""
    apply_data = ProducerState.apply_data

    def apply(self: ProducerState, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        apply_data(self, header, base_offset, now_ms)
        if header.is_transactional:
            del self._entries[header.producer_id]

    return mock.patch.object(ProducerState, "apply_data", apply)


def _ending_without_a_decision() -> AbstractContextManager[Any]:
    """A partition that forgets an ended branch together with what its marker has to end."""
    apply_marker = ProducerState.apply_marker

    def apply(self: ProducerState, header: BatchHeader, marker: EndTransactionMarker, offset: int, now_ms: int) -> Any:
        if header.producer_epoch == server.BRANCH_EPOCH:
            return apply_marker(self, header, marker, offset, now_ms)
        self._entries.pop(header.producer_id, None)
        return None

    return mock.patch.object(ProducerState, "apply_marker", apply)


BRANCH_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "leader that trusts strangers": _trusting_strangers,
    "coordinator that confirms what is over": _confirming_what_is_over,
    "coordinator that takes any producer for the owner": _taking_any_producer,
    "partition that forgets what is open": _forgetting_what_is_open,
    "partition that forgets what a marker ends": _ending_without_a_decision,
}
