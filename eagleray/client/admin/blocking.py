"""The admin's part about readers that wait: which transaction holds them back, whose it is, and how to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from shlex import quote

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.partitions.events import DescribePartition, DescribeProducers, ProducerDescription
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.broker.transactions.states import UNDECIDED_NAMES
from eagleray.client import validation
from eagleray.client.admin.descriptions import BlockingTransaction
from eagleray.client.admin.group_reads import partitions_read_by
from eagleray.client.admin.transaction_admin import TransactionAdmin
from eagleray.client.calls import Question
from eagleray.client.errors import RefusedError
from eagleray.client.lookups import check_partitions, find_topics

HANGING = "hanging"
_ONGOING = "Ongoing"


class _Open(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ProducerDescription


class BlockingAdmin(TransactionAdmin):
    """Finds what holds readers of committed records back. Owns: nothing."""

    async def blocking(self, *topics: str | TopicPartition, group: str | None = None) -> list[BlockingTransaction]:
        """Return the transaction at the last stable offset of each partition that has one; the oldest come first.

        Of these topics and partitions, or of all topics. With `group`: of the partitions that it reads, and those whose
        transactions hold offsets of its own. Raises TopicNotFound and GroupNotFound.
        """
        if group is None:
            return await self._blocking(await self._partitions_of(topics))
        if topics:
            raise RefusedError("topics and a group were both given; ask about the one or about the other.")
        read = await partitions_read_by(self._runtime, validation.group(group), self._retry_policy)
        return await self._blocking(read.partitions, read.offsets_partition, read.pending)

    async def _partitions_of(self, wanted: Iterable[str | TopicPartition]) -> list[TopicPartition]:
        names = [validation.topic(each) for each in wanted if not isinstance(each, TopicPartition)]
        partitions = [validation.partition(each) for each in wanted if isinstance(each, TopicPartition)]
        await self._runtime.view.refreshed()
        if not names and not partitions:
            known = self._runtime.view.partitions
            names = [name for name in known if not name.startswith("__")]
        await check_partitions(self._runtime, partitions, self._retry_policy)
        found = await find_topics(self._runtime, names, self._retry_policy)
        partitions += [partition for of_topic in found.values() for partition in of_topic]
        return list(dict.fromkeys(partitions))

    async def _blocking(
        self,
        partitions: Iterable[TopicPartition],
        offsets_partition: TopicPartition | None = None,
        pending: Sequence[int] = (),
    ) -> list[BlockingTransaction]:
        leaders = self._runtime.view.leaders
        # A partition without a leader is read by none, and would be waited for.
        led = [partition for partition in partitions if leaders.get(partition, NO_NODE) != NO_NODE]
        described = await asyncio.gather(*(self._transactions_in(partition) for partition in led))
        first = [min(each, key=_since) for each in described if each]
        if offsets_partition is not None and pending:
            in_offsets = await self._transactions_in(offsets_partition)
            first += [found for found in in_offsets if found.producer.producer.producer_id in pending]
        owners = await self._owners_of(first)
        blocking = await asyncio.gather(*map(self._describe_blocking, first, owners))
        found = [each for each in blocking if each is not None]
        return sorted(found, key=lambda each: (each.start_ms, each.partition))

    async def _transactions_in(self, partition: TopicPartition) -> list[_Open]:
        reply = await self._ask_leader(partition, "describing the producers of", Question(DescribeProducers, partition))
        return [_Open(partition, producer) for producer in reply.producers if producer.open_since_offset >= 0]

    async def _owners_of(self, found: Sequence[_Open]) -> list[TransactionDescription | None]:
        """Ask the coordinators, after the partitions, whose transactions these are."""
        producer_ids = {each.producer.producer.producer_id for each in found}
        if not producer_ids:
            return []
        known = await self.list_transactions(states=UNDECIDED_NAMES, producer_ids=producer_ids)
        return await asyncio.gather(*(self._owner_of(each, known) for each in found))

    async def _owner_of(self, found: _Open, known: Sequence[TransactionDescription]) -> TransactionDescription | None:
        producer_id = found.producer.producer.producer_id
        here = [transaction for transaction in known if found.partition in transaction.partitions]
        owner = next((each for each in here if each.producer.producer_id == producer_id), None)
        branched = [transaction for transaction in here if transaction.branches]
        if owner is None and len(branched) > 1:
            # The descriptions do not have the branches; the coordinator finds a transaction by one of them.
            branched = await self.list_transactions(states=UNDECIDED_NAMES, producer_ids=(producer_id,))
        return owner or next(iter(branched), None)

    async def _describe_blocking(
        self, found: _Open, owner: TransactionDescription | None
    ) -> BlockingTransaction | None:
        """Describe a transaction; None where it has ended since its partition was asked."""
        if owner is None and found not in await self._transactions_in(found.partition):
            return None
        offsets = await self._ask_leader(found.partition, "describing", Question(DescribePartition, found.partition))
        producer = found.producer
        waiting = max(offsets.high_watermark - producer.open_since_offset, 0)
        blocking = BlockingTransaction(
            partition=found.partition,
            open_since_offset=producer.open_since_offset,
            records_waiting=waiting,
            last_timestamp_ms=producer.last_timestamp_ms,
            producer=producer.producer,
            transactional_id=None,
            state=HANGING,
            end_with=_command_to_end(found, owner),
        )
        return blocking if owner is None else _with_owner(blocking, owner)


def _since(found: _Open) -> int:
    return found.producer.open_since_offset


def _with_owner(blocking: BlockingTransaction, owner: TransactionDescription) -> BlockingTransaction:
    return msgspec.structs.replace(
        blocking,
        transactional_id=owner.transactional_id,
        state=owner.state,
        start_ms=owner.start_ms,
        timeout_ms=owner.timeout_ms,
        max_hold_ms=owner.max_hold_ms,
        ends_by_ms=_ends_by_ms(owner),
        prepared_ms=owner.prepared_ms,
        tag=owner.tag,
        origin=owner.origin,
    )


def _ends_by_ms(owner: TransactionDescription) -> int:
    """When the coordinator aborts a transaction; -1 where it is prepared or decided, or may take part in two phases."""
    if owner.state != _ONGOING or owner.is_in_two_phases:
        return -1
    bounds_ms = (owner.timeout_ms, owner.max_hold_ms)
    return owner.start_ms + min(bound_ms for bound_ms in bounds_ms if bound_ms >= 0)


def _command_to_end(found: _Open, owner: TransactionDescription | None) -> str:
    if owner is not None:
        # Only the other system knows how one has to end that may be prepared.
        word = "describe" if owner.is_in_two_phases else "abort"
        return f"eagleray txn {word} {quote(owner.transactional_id)}"
    partition, producer = found.partition, found.producer.producer
    return f"eagleray txn abort-hanging {partition.topic} {partition.partition} {producer.producer_id}"
