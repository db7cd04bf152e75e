"""Transactions with many writers: a driver begins, workers write into branches, the driver commits those it names.

async with await begin(runtime, "job-7", tag="batch-12") as transaction:
    if not transaction.already_committed:
        sealed = run_tasks(transaction.branch() for _ in range(100))   # each worker: see `BranchWriter`
        await transaction.commit(sealed)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, Self

import msgspec

from eagleray.actors.lanes.link import Reply
from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetToCommit
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION, RequestOf
from eagleray.broker.transactions.events import BeginBranched, BranchedReply, EndBranched, OpenBranch
from eagleray.client import validation
from eagleray.client.calls import RetryPolicy, call_with_retries
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    EaglerayError,
    InvalidTransactionState,
    NotEnded,
    RefusedError,
    RetriableError,
)
from eagleray.client.lookups import any_error
from eagleray.client.producer.batches import PartitionQueue, ProducerBatch
from eagleray.client.producer.delivery_guarantee import LOST_SEQUENCE, DeliveryGuarantee
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.sender import Sender
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from eagleray.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_IS_SEALING: Final = InvalidTransactionState("the branch is being sealed, so that no more can be sent.")
_IS_SEALED: Final = InvalidTransactionState("the branch is sealed, so that no more can be sent.")


class JoinsBranches(Protocol):
    """The cluster, as far as a token knows it."""

    async def join(self, token: BranchToken, /) -> BranchWriter:
        """Begin an attempt at the branch of a token."""


class BranchToken(msgspec.Struct, frozen=True):
    """Leave to write into one branch of a transaction. Small and picklable: it is sent to a worker.

    Every attempt that opens the token, retried or speculative, writes under an identity of its own.
    """

    cluster: str
    transactional_id: str
    owner: ProducerIdentity
    branch: int

    async def open(self, cluster: JoinsBranches) -> BranchWriter:
        """Begin an attempt at this branch."""
        return await cluster.join(self)


class SealedBranch(msgspec.Struct, frozen=True):
    """What one attempt at a branch has written, all of it acknowledged. Picklable: it is sent back to the driver."""

    transactional_id: str
    branch: int
    producer: ProducerIdentity


class _InBranch(DeliveryGuarantee):
    """Batches under a branch's identity; the first failure ends the attempt."""

    is_transactional = True

    def __init__(self, sender: Sender, transactional_id: str, identity: ProducerIdentity) -> None:
        super().__init__(sender)
        self._all = sender
        self.transactional_id = transactional_id
        self.identity = identity
        self.failure: Exception | None = None
        """The first failure of the attempt, which cannot be sealed after it."""

    def identity_for(self, queue: PartitionQueue) -> ProducerIdentity:
        """Return the branch's identity."""
        if queue.identity is None:
            queue.start_sequences(self.identity)
        return self.identity

    def refused(self, batch: ProducerBatch, error_code: ErrorCode, error: EaglerayError) -> None:
        """Retry behind a gap that has a reason; else fail the attempt."""
        if error_code in LOST_SEQUENCE and not batch.was_first:
            self._sender.retry(batch, error_code)
        else:
            self.expired(batch, error)

    def expired(self, batch: ProducerBatch, error: EaglerayError) -> None:  # noqa: ARG002 - the whole attempt fails
        """Fail the attempt."""
        self.send_failed(error)
        self._sender.fail_all(error)

    def send_failed(self, error: Exception) -> None:
        """Fail the attempt: without the record that was refused the branch is not what its writer wanted."""
        self.failure = self.failure or error
        if self.refusal is None or self.refusal is _IS_SEALING:
            self.refusal = self.failure

    def shut_out(self) -> None:
        """Take no more records: all that belongs to the branch is there, or the attempt has failed."""
        if self.refusal is None:
            unsent = self._all.shut(_IS_SEALING)
            if unsent is not None:
                self.send_failed(unsent)

    def check_sealable(self) -> None:
        """Raise why the attempt cannot be sealed, once everything has come to its end."""
        error = self.failure or self.refusal
        if error is not None and error is not _IS_SEALING:
            raise error


class BranchWriter(AsyncProducer):
    """One attempt at one branch, for the worker that has the token.

        async with await token.open(cluster) as writer:
            await writer.send("orders", b"...")
            sealed = await writer.seal()
        return sealed

    What is not sealed, or sealed and not named in the commit, is aborted with the transaction.
    """

    __slots__ = ("_branch", "_is_sealed", "_token")

    def __init__(
        self,
        runtime: ClientRuntime,
        token: BranchToken,
        identity: ProducerIdentity,
        config: ProducerConfig | None = None,
    ) -> None:
        super().__init__(runtime, config)
        self._token = token
        self._is_sealed = False
        self._branch = _InBranch(self._sender, token.transactional_id, identity)
        self._sender.guarantee = self._guarantee = self._branch

    async def seal(self) -> SealedBranch:
        """Wait until everything is acknowledged; raise what was not. Nothing more can be sent once this is called."""
        branch = self._branch
        branch.shut_out()
        await self.flush()
        if not self._is_sealed:
            branch.check_sealable()
            self._is_sealed = True
            branch.refusal = _IS_SEALED
        return SealedBranch(self._token.transactional_id, self._token.branch, branch.identity)


async def join(runtime: ClientRuntime, token: BranchToken, config: ProducerConfig | None = None) -> BranchWriter:
    """Begin an attempt at the branch of a token."""
    if token.cluster and runtime.cluster and token.cluster != runtime.cluster:
        raise RefusedError(f"the token belongs to cluster {token.cluster!r}, but this is {runtime.cluster!r}.")
    reply = await _ask(runtime, token.transactional_id, "opening a branch of", OpenBranch, token.owner)
    return BranchWriter(runtime, token, reply.producer, config)


async def begin(
    runtime: ClientRuntime, transactional_id: str, *, tag: str, timeout_ms: int = 60_000, shared: bool = False
) -> AsyncTransaction:
    """Begin a transaction with branches; the producer that had the transactional id before is fenced.

    With `shared`, a driver with the tag of the open transaction takes part in it and fences no other. A tag in the form
    `series#number` is refused where a later number of its series is open, and committed where a later one is.
    """
    reply: BranchedReply = await _ask(
        runtime, transactional_id, "beginning a transaction of", BeginBranched, tag, timeout_ms, shared
    )
    return AsyncTransaction(runtime, transactional_id, tag, reply.producer, already_committed=reply.tag_is_committed)


async def _ask(
    runtime: ClientRuntime,
    transactional_id: str,
    doing: str,
    message_type: Callable[..., RequestOf[Reply]],
    *fields: object,
) -> Reply:
    return await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(transactional_id),
        f"{doing} transactional id {transactional_id!r}",
        message_type,
        transactional_id,
        *fields,
        retry_policy=RetryPolicy(),
    )


class AsyncTransaction:
    """A transaction whose branches others write, from the place of the driver that decides over it.

    Owns: the transaction, as long as no other driver begins another one under the same transactional id. `commit` is
    decided by one record in the coordinator's log; the tag makes it idempotent: a driver that comes back after a crash
    and begins the same tag again sees `already_committed` and has nothing to do.

    As a context it commits nothing by itself, for only the driver knows which branches count: a block that ends with
    neither `commit` nor `abort` aborts and raises `NotEnded`, unless the tag was committed before.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        transactional_id: str,
        tag: str,
        owner: ProducerIdentity,
        *,
        already_committed: bool,
    ) -> None:
        self._runtime = runtime
        self.transactional_id = transactional_id
        self.tag = tag
        self.owner = owner
        self.already_committed = already_committed
        self._branches = 0
        self._outcome: bool | None = True if already_committed else None

    def branch(self, number: int | None = None) -> BranchToken:
        """Return leave to write into another branch, or into the one with this number, such as that of a task."""
        if number is None:
            number = self._branches
            self._branches += 1
        return BranchToken(self._runtime.cluster, self.transactional_id, self.owner, number)

    async def commit(
        self,
        sealed: Iterable[SealedBranch] = (),
        *,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        group: str | ConsumerGroupMetadata | None = None,
    ) -> None:
        """Commit exactly these branches, with a group's offsets where there are some, and abort all others.

        Of two sealed attempts at one branch the first wins. Repeating it changes nothing.
        """
        if self._outcome is not None:
            self._check_outcome(commit=True)
            return
        chosen = self._choose(sealed)
        if offsets:
            if group is None:
                raise RefusedError("offsets were given without the group whose they are.")
            wanted = offsets_to_commit(validation.offsets_to_commit(offsets))
            await self._send_offsets(wanted, validation.consumer_group(group))
        await self._end(chosen, commit=True)

    def _choose(self, sealed: Iterable[SealedBranch]) -> tuple[ProducerIdentity, ...]:
        chosen: dict[int, ProducerIdentity] = {}
        for branch in sealed:
            if branch.transactional_id != self.transactional_id:
                raise RefusedError(
                    f"a branch of {branch.transactional_id!r} cannot be committed with {self.transactional_id!r}."
                )
            chosen.setdefault(branch.branch, branch.producer)
        return tuple(chosen.values())

    async def _send_offsets(self, offsets: tuple[OffsetToCommit, ...], group: ConsumerGroupMetadata) -> None:
        await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.group_coordinator(group.group_id),
            f"committing offsets of group {group.group_id!r} with {self.transactional_id!r}",
            CommitTransactionOffsets,
            group.group_id,
            self.transactional_id,
            self.owner,
            offsets,
            group.generation,
            group.member_id,
            group.group_instance_id,
            IMPLICIT_VERSION,
            retry_policy=RetryPolicy(),
            error_of=any_error,
        )

    async def abort(self) -> None:
        """Abort all branches."""
        if self._outcome is not None:
            self._check_outcome(commit=False)
            return
        await self._end((), commit=False)

    async def _end(self, branches: tuple[ProducerIdentity, ...], *, commit: bool) -> None:
        """Tell the coordinator until it answers: only it knows what became of an attempt without an answer."""
        while self._outcome is None:
            try:
                await _ask(self._runtime, self.transactional_id, "ending", EndBranched, self.owner, commit, branches)
            except RetriableError as error:
                logger.warning("the transaction of %r is not ended yet: %s", self.transactional_id, error)
                continue
            self._outcome = commit

    def _check_outcome(self, *, commit: bool) -> None:
        if self._outcome is not commit:
            done = "committed" if self._outcome else "aborted"
            raise InvalidTransactionState(f"the transaction of {self.transactional_id!r} is {done} already.")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if self._outcome is not None:
            return
        try:
            await self.abort()
        except EaglerayError as error:
            if kind is None:
                raise
            logger.warning("aborting the transaction of %r: %s", self.transactional_id, error)
        if kind is None:
            raise NotEnded(
                f"the block of the transaction of {self.transactional_id!r} with the tag {self.tag!r} has ended with "
                "neither commit() nor abort(), and so it was aborted."
            )
