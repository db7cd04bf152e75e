"""Transactions with many writers: a driver begins, workers write into branches, the driver commits those it names.

async with await begin(runtime, "job-7", tag="batch-12") as transaction:
    if not transaction.already_committed:
        sealed = run_tasks(transaction.branch() for _ in range(100))   # each worker: see `BranchWriter`
        await transaction.commit(sealed)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, Self

import msgspec

from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import EndBranched, OpenBranch, PrepareTransaction
from eagleray.broker.transactions.origin import Origin
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.client import validation
from eagleray.client.calls import Question, call_with_retries
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
from eagleray.client.producer.coordinator_call import ask_coordinator, ask_to_begin
from eagleray.client.producer.delivery_guarantee import LOST_SEQUENCE, DeliveryGuarantee
from eagleray.client.producer.offsets_request import offsets_question
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.resolver import Resolver, resolver_name
from eagleray.client.producer.sender import Sender
from eagleray.client.retry_policy import RetryPolicy
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


class Remembered(msgspec.Struct, frozen=True):
    """What a coordinator remembers of the tags of a transactional id. Picklable: a worker tells its driver."""

    committed_tag: str | None
    """The last one that is committed."""

    memory_ms: int
    """How long that is remembered when the transactional id is not used."""


class _InBranch(DeliveryGuarantee):
    """Batches under a branch's identity; the first failure ends the attempt."""

    is_transactional = True

    def __init__(self, sender: Sender, transactional_id: str, identity: ProducerIdentity) -> None:
        super().__init__(sender)
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
            unsent = self._sender.shut(_IS_SEALING)
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
    question = Question(OpenBranch, token.transactional_id, token.owner)
    reply = await ask_coordinator(runtime, token.transactional_id, "opening a branch of", question)
    return BranchWriter(runtime, token, reply.producer, config)


async def begin(
    runtime: ClientRuntime,
    transactional_id: str,
    *,
    tag: str,
    timeout_ms: int = 60_000,
    shared: bool = False,
    origin: Origin | None = None,
    resolver: Resolver | None = None,
    begins_anew: bool = False,
) -> AsyncTransaction:
    """Begin a transaction with branches; the producer that had the transactional id before is fenced.

    With `shared`, a driver with the tag of the open transaction takes part in it and fences no other. A tag in the form
    `series#number` is refused where a later number of its series is open, and committed where a later one is, unless
    the series `begins_anew` with it. A resolver is asked how the transaction has to end, once it is prepared.
    """
    named = resolver_name(resolver, runtime.ray_namespace)
    reply = await ask_to_begin(
        runtime, transactional_id, tag, timeout_ms, shared=shared, origin=origin, begins_anew=begins_anew
    )
    return AsyncTransaction(
        runtime,
        transactional_id,
        tag,
        reply.producer,
        already_committed=reply.tag_is_committed,
        resolver=named,
        remembered=Remembered(reply.committed_tag, reply.memory_ms),
    )


async def take_part(
    runtime: ClientRuntime,
    transactional_id: str,
    *,
    tag: str,
    branch: int,
    timeout_ms: int = 60_000,
    config: ProducerConfig | None = None,
    origin: Origin | None = None,
    begins_anew: bool = False,
) -> tuple[AsyncTransaction, BranchWriter | None]:
    """Begin with `shared` and join a branch, by one question; there is no writer where the tag is committed."""
    reply = await ask_to_begin(
        runtime,
        transactional_id,
        tag,
        timeout_ms,
        shared=True,
        opens_branch=True,
        origin=origin,
        begins_anew=begins_anew,
    )
    committed = reply.tag_is_committed
    transaction = AsyncTransaction(
        runtime,
        transactional_id,
        tag,
        reply.producer,
        already_committed=committed,
        remembered=Remembered(reply.committed_tag, reply.memory_ms),
    )
    token = transaction.branch(branch)
    return transaction, None if committed else BranchWriter(runtime, token, reply.branch, config)


class AsyncTransaction:
    """A transaction whose branches others write, from the place of the driver that decides over it.

    Owns: the transaction, as long as no other driver begins another one under the same transactional id. `commit` is
    decided by one record in the coordinator's log; the tag makes it idempotent: a driver that comes back after a crash
    and begins the same tag again sees `already_committed` and has nothing to do.

    As a context it commits nothing by itself, for only the driver knows which branches count: a block that ends with
    neither `commit` nor `abort` aborts and raises `NotEnded`, unless the tag was committed before. Once `prepare` has
    said which count, the end of the block commits, and an exception leaves the transaction prepared.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        transactional_id: str,
        tag: str,
        owner: ProducerIdentity,
        *,
        already_committed: bool = False,
        resolver: ResolverName | None = None,
        remembered: Remembered | None = None,
    ) -> None:
        self._runtime = runtime
        self.transactional_id = transactional_id
        self.tag = tag
        self.owner = owner
        self.already_committed = already_committed
        self.remembered = remembered
        """What the coordinator had of tags when it began; None where it was not asked."""
        self._branches = 0
        self._outcome: bool | None = True if already_committed else None
        self._chosen: tuple[ProducerIdentity, ...] | None = None
        """The branches with which it is prepared."""

        self._resolver = resolver

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

        Of two sealed attempts at one branch the first wins. Repeating it changes nothing. A transaction that is
        prepared is committed as it was prepared.
        """
        if self._outcome is not None:
            self._check_outcome(commit=True)
            return
        await self._end(await self._gather(sealed, offsets, group), commit=True)

    async def prepare(
        self,
        sealed: Iterable[SealedBranch] = (),
        *,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        group: str | ConsumerGroupMetadata | None = None,
        context: bytes = b"",
    ) -> PreparedTransaction:
        """Prepare to commit exactly these branches: from here on no timeout ends the transaction, nor does a crash.

        `commit()`, `abort()` or `cluster.complete` with what this returns end it, and so does the next to begin under
        the same transactional id, which aborts it. `context` is kept with it for those who find it later.
        """
        if self._outcome is not None:
            done = "committed" if self._outcome else "aborted"
            raise InvalidTransactionState(f"cannot prepare the transaction of {self.transactional_id!r}: it is {done}.")
        validation.context(context)
        chosen = await self._gather(sealed, offsets, group)
        question = Question(PrepareTransaction, self.transactional_id, self.owner, context, chosen, self._resolver)
        reply = await ask_coordinator(self._runtime, self.transactional_id, "preparing the transaction of", question)
        self._chosen = chosen
        return PreparedTransaction(self.transactional_id, reply.producer)

    async def _gather(
        self,
        sealed: Iterable[SealedBranch],
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
        group: str | ConsumerGroupMetadata | None,
    ) -> tuple[ProducerIdentity, ...]:
        """Say which branches count, and have the offsets become part of the transaction."""
        chosen = self._choose(sealed)
        if self._chosen is not None:
            if offsets or (chosen and set(chosen) != set(self._chosen)):
                raise RefusedError(
                    f"the transaction of {self.transactional_id!r} is prepared with other branches or offsets."
                )
            return self._chosen
        if offsets:
            if group is None:
                raise RefusedError("offsets were given without the group whose they are.")
            wanted = offsets_to_commit(validation.offsets_to_commit(offsets))
            await self._send_offsets(wanted, validation.consumer_group(group))
        return chosen

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
            offsets_question(self.transactional_id, self.owner, offsets, group),
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
        question = Question(EndBranched, self.transactional_id, self.owner, commit, branches)
        while self._outcome is None:
            try:
                await ask_coordinator(self._runtime, self.transactional_id, "ending", question)
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
        if self._chosen is not None:
            if kind is None:
                await self.commit()
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
