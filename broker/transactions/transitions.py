"""The transitions themselves: from one snapshot of a transactional id to the next, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from eagleray.broker.identities import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.branches.branching import Branch, begun_with_tag
from eagleray.broker.transactions.preparation import NOT_ASKED_MS, Preparation
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.broker.transactions.snapshot import NO_TIME_MS, Snapshot
from eagleray.broker.transactions.states import TransactionState

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
_NOTHING: frozenset[TopicPartition] = frozenset()


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Snapshot:
    """A transactional id that was never seen; its first InitProducerId raises the epoch to 0."""
    return Snapshot(
        state=_EMPTY, producer_id=producer_id, producer_epoch=NO_EPOCH, timeout_ms=timeout_ms, updated_ms=now_ms
    )


def with_next_epoch(current: Snapshot, timeout_ms: int, *, is_named: bool, now_ms: int) -> Snapshot:
    """InitProducerId: raise the epoch; only a producer that named itself may repeat the request."""
    raised = replace(
        current,
        producer_epoch=current.producer_epoch + 1,
        last_producer_epoch=current.producer_epoch if is_named else NO_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
    )
    return with_same_identity(raised, timeout_ms, now_ms)


def with_new_producer_id(
    current: Snapshot, producer_id: int, named_epoch: int, timeout_ms: int, now_ms: int
) -> Snapshot:
    """InitProducerId with the epochs used up: another producer id; the old pair, if it was named, may repeat."""
    rotated = replace(
        current,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=named_epoch,
        previous_producer_id=current.producer_id,
    )
    return with_same_identity(rotated, timeout_ms, now_ms)


def with_same_identity(current: Snapshot, timeout_ms: int, now_ms: int) -> Snapshot:
    """InitProducerId repeated: the identity that it gave the first time, and no transaction."""
    return replace(
        current,
        state=_EMPTY,
        timeout_ms=timeout_ms,
        partitions=_NOTHING,
        start_ms=NO_TIME_MS,
        updated_ms=now_ms,
        branching=None if current.branching is None else current.branching.when_idle(),
    )


def with_tag(identity: Snapshot, before: Snapshot, tag: str, *, begins_anew: bool) -> Snapshot:
    """BeginBranched: InitProducerId, for a transaction with branches, which is one of version 2 throughout."""
    return replace(
        identity,
        client_version=IMPLICIT_VERSION,
        branching=begun_with_tag(before.branching, tag, begins_anew=begins_anew),
    )


def begun(current: Snapshot, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> Snapshot:
    """AddPartitionsToTxn and AddOffsetsToTxn: the first partition begins the transaction and starts its timer."""
    return replace(
        current,
        state=_ONGOING,
        # A producer that uses an epoch has heard of it: from here on it repeats no request with the one before.
        last_producer_epoch=NO_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(partitions),
        start_ms=now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def joined(current: Snapshot, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> Snapshot:
    """AddPartitionsToTxn and AddOffsetsToTxn: more partitions for an ongoing transaction."""
    return replace(
        current,
        partitions=current.partitions.union(partitions),
        updated_ms=now_ms,
        client_version=client_version,
    )


def joined_by_many(
    current: Snapshot, partitions: frozenset[TopicPartition], branches: dict[int, Branch], version: int, now_ms: int
) -> Snapshot:
    """OpenBranch, and partitions for branches or for their owner; several requests may have come to this together."""
    begins = current.state is not _ONGOING
    return replace(
        current,
        state=_ONGOING,
        last_producer_epoch=NO_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        partitions=partitions,
        start_ms=now_ms if begins else current.start_ms,
        updated_ms=now_ms,
        client_version=version,
        branching=None if current.branching is None else replace(current.branching, branches=branches),
    )


def prepared(
    current: Snapshot,
    context: bytes,
    branches: Iterable[ProducerIdentity],
    now_ms: int,
    resolver: ResolverName | None = None,
) -> Snapshot:
    """PrepareTransaction: nothing joins any more, and no timeout ends it. One without partitions begins with it."""
    named = tuple(sorted(branch.producer_id for branch in branches))
    preparation = replace(
        current.preparation or Preparation(), prepared_ms=now_ms, context=context, branches=named, resolver=resolver
    )
    if current.state is _ONGOING:
        return replace(current, updated_ms=now_ms, preparation=preparation)
    without_branches = None if current.branching is None else replace(current.branching, branches={})
    begun_with_nothing = begun(current, _NOTHING, IMPLICIT_VERSION, now_ms)
    return replace(begun_with_nothing, branching=without_branches, preparation=preparation)


def kept(current: Snapshot, holder: ProducerIdentity, timeout_ms: int, *, is_named: bool, now_ms: int) -> Snapshot:
    """InitProducerId that keeps what is open: its records stay those of their writer, and another is the holder."""
    before = current.holder
    return replace(
        current,
        last_producer_epoch=before.epoch if is_named else NO_EPOCH,
        previous_producer_id=before.producer_id if before.producer_id != current.producer_id else NO_PRODUCER_ID,
        next_producer_id=holder.producer_id,
        next_producer_epoch=holder.epoch,
        updated_ms=now_ms,
        preparation=replace(current.preparation or Preparation(), next_timeout_ms=timeout_ms, asked_ms=NOT_ASKED_MS),
    )


def asked_about(current: Snapshot, now_ms: int) -> Snapshot:
    """The resolver is about to be asked: the producer, if one still has the transaction, can do nothing more in it.

    The identity that is the holder from now on is given to no producer, so the last epoch serves as well.
    """
    preparation = current.preparation
    assert preparation is not None, "only what is prepared is asked about"
    questions, holder = preparation.questions + 1, current.holder
    raised = holder.epoch if current.has_been_asked_about else min(holder.epoch + 1, LAST_EPOCH)
    return replace(
        current,
        last_producer_epoch=NO_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=holder.producer_id,
        next_producer_epoch=raised,
        updated_ms=now_ms,
        preparation=replace(preparation, questions=questions, asked_ms=now_ms),
    )


def decided(current: Snapshot, *, commit: bool, client_version: int, now_ms: int) -> Snapshot:
    """EndTxn: the decision, which nothing can undo. In version 2 it raises the epoch, and markers carry the new one."""
    raises_epoch = client_version >= IMPLICIT_VERSION
    if current.preparation is not None:
        current = _with_outcome(current, commit=commit)
    if current.is_kept:
        current = _held_by_its_keeper(current, raised_by=raises_epoch, is_named=raises_epoch)
        return replace(
            current,
            state=_PREPARE_COMMIT if commit else _PREPARE_ABORT,
            updated_ms=now_ms,
            client_version=client_version,
        )
    return replace(
        current,
        state=_PREPARE_COMMIT if commit else _PREPARE_ABORT,
        producer_epoch=current.producer_epoch + 1 if raises_epoch else current.producer_epoch,
        last_producer_epoch=current.producer_epoch if raises_epoch else current.last_producer_epoch,
        previous_producer_id=NO_PRODUCER_ID,
        # In version 2 a producer may abort what it never began.
        start_ms=current.start_ms if current.state is _ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def decided_with_branches(
    current: Snapshot, branches: Iterable[ProducerIdentity], *, commit: bool, now_ms: int
) -> Snapshot:
    """EndBranched: the decision, with those branches that count if it is to commit."""
    decision = decided(current, commit=commit, client_version=IMPLICIT_VERSION, now_ms=now_ms)
    branching = current.branching
    if branching is None:
        return decision
    if current.state not in (_ONGOING, _EMPTY):
        # An abort of nothing: what is left of the transaction before has no part in it.
        return replace(decision, branching=branching.when_idle())
    return replace(decision, branching=branching.when_committed(branches)) if commit else decision


def moving_on(decision: Snapshot, producer_id: int) -> Snapshot:
    """A decision with which the epochs are used up: the producer goes on under another producer id."""
    return replace(decision, next_producer_id=producer_id, next_producer_epoch=0)


def fenced(current: Snapshot, *, is_named: bool, now_ms: int) -> Snapshot:
    """Raise the epoch of an ongoing transaction, so that its producer can do nothing more before it is aborted.

    Only a producer that asked for this itself, by its name, gets to go on afterwards.
    """
    if current.is_kept:
        current = _held_by_its_keeper(current, raised_by=1, is_named=is_named)
        return replace(current, state=TransactionState.PREPARE_EPOCH_FENCE, updated_ms=now_ms)
    return replace(
        current,
        state=TransactionState.PREPARE_EPOCH_FENCE,
        producer_epoch=min(current.producer_epoch + 1, LAST_EPOCH),
        last_producer_epoch=current.producer_epoch if is_named else NO_EPOCH,
        updated_ms=now_ms,
    )


def aborted_by_coordinator(current: Snapshot, *, is_named: bool, now_ms: int) -> Snapshot:
    """End what its producer does not end, at an epoch above the producer's own.

    In version 2 the decision itself raises the epoch, once, and a producer that asks how its transaction ended is
    told. Not so when no epoch is left: no producer gets the last one, and one that comes back has to ask for a new id.
    """
    return _decided_for_its_producer(current, commit=False, is_named=is_named, now_ms=now_ms)


def completed_by_token(current: Snapshot, *, commit: bool, now_ms: int) -> Snapshot:
    """CompleteTransaction: end what its producer may have left, so that the producer can do nothing more in it."""
    token = current.written_by
    decision = _decided_for_its_producer(current, commit=commit, is_named=False, now_ms=now_ms)
    preparation = (decision.preparation or Preparation()).remembering(token, commit=commit)
    branching = current.branching
    if branching is not None and commit:
        branching = branching.when_committed(current.prepared_branches)
    return replace(decision, branching=branching, preparation=preparation)


def _decided_for_its_producer(current: Snapshot, *, commit: bool, is_named: bool, now_ms: int) -> Snapshot:
    if current.client_version >= IMPLICIT_VERSION and not current.is_epoch_exhausted:
        return decided(current, commit=commit, client_version=current.client_version, now_ms=now_ms)
    ended = fenced(_with_outcome(current, commit=commit), is_named=is_named, now_ms=now_ms)
    return replace(ended, state=_PREPARE_COMMIT if commit else _PREPARE_ABORT)


def _with_outcome(current: Snapshot, *, commit: bool) -> Snapshot:
    """Remember how a prepared transaction ends."""
    if not current.is_prepared or current.preparation is None:
        return current
    return replace(current, preparation=current.preparation.remembering(current.written_by, commit=commit))


def _held_by_its_keeper(current: Snapshot, *, raised_by: int, is_named: bool) -> Snapshot:
    """Give a kept transaction the identities of its end: markers above all that was written, and the holder raised.

    The keeper may go on under the transaction's own producer id, and then its epoch is the markers'. Where it goes on
    under another, the first is never used again, and its last epoch ends it.
    """
    epoch = min(current.next_producer_epoch + raised_by, LAST_EPOCH)
    last_epoch = current.next_producer_epoch if is_named else NO_EPOCH
    if current.next_producer_id == current.producer_id:
        return replace(
            current,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=NO_PRODUCER_ID,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
        )
    return replace(
        current,
        producer_epoch=LAST_EPOCH,
        last_producer_epoch=last_epoch,
        previous_producer_id=current.next_producer_id,
        next_producer_epoch=epoch,
    )


def completed(current: Snapshot, now_ms: int) -> Snapshot:
    """Every marker is written; a producer whose epochs were used up goes on with its next id."""
    state = _COMPLETE_COMMIT if current.state is _PREPARE_COMMIT else _COMPLETE_ABORT
    if current.branching is not None:
        current = replace(current, branching=current.branching.when_completed())
    if current.preparation is not None:
        current = _without_preparation(current)
    if current.next_producer_id == NO_PRODUCER_ID:
        return replace(current, state=state, partitions=_NOTHING, updated_ms=now_ms)
    return replace(
        current,
        state=state,
        producer_id=current.next_producer_id,
        producer_epoch=current.next_producer_epoch,
        # It is the one that the last request named, where a keeper had another than the transaction.
        previous_producer_id=(
            current.producer_id if current.previous_producer_id == NO_PRODUCER_ID else current.previous_producer_id
        ),
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        partitions=_NOTHING,
        updated_ms=now_ms,
    )


def _without_preparation(current: Snapshot) -> Snapshot:
    """The end of a transaction that was prepared or kept: the next ones have the timeout of their own producer."""
    preparation = current.preparation
    if preparation is None:
        return current
    timeout_ms = current.timeout_ms if preparation.next_timeout_ms is None else preparation.next_timeout_ms
    return replace(current, timeout_ms=timeout_ms, preparation=preparation.when_completed())


def expired(current: Snapshot, now_ms: int) -> Snapshot:
    """An idle transactional id is about to be forgotten."""
    return replace(current, state=TransactionState.DEAD, updated_ms=now_ms)
