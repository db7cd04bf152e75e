"""Transactions with many writers: a driver begins, workers write into branches, the driver commits those it names.

async with await begin(runtime, "job-7", tag="batch-12") as transaction:
    if not transaction.already_committed:
        sealed = run_tasks(transaction.branch() for _ in range(100))   # each worker: see `BranchWriter`
        await transaction.commit(sealed)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec

from eagleray.broker.groups.events import CommitTransactionOffsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import BeginBranched, BranchedReply, EndBranched, OpenBranch
from eagleray.client.batches import PartitionQueue, ProducerBatch
from eagleray.client.calls import Patience, call_patiently
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    EaglerayError,
    InvalidTransactionState,
    RefusedError,
    RetriableError,
)
from eagleray.client.guarantees import LOST_SEQUENCE, Plain
from eagleray.client.lookups import any_error
from eagleray.client.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sender import Sender
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, as_group, offsets_to_commit
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eagleray.client.cluster import AsyncCluster

logger = logging.getLogger(__name__)


class BranchToken(msgspec.Struct, frozen=True):
    """Leave to write into one branch of a transaction. Small and picklable: it is sent to a worker.

    Every attempt that opens the token, retried or speculative, writes under an identity of its own.
    """

    cluster: str
    transactional_id: str
    owner: ProducerIdentity
    branch: int

    async def open(self, cluster: AsyncCluster) -> BranchWriter:
        """Begin an attempt at this branch."""
        return await cluster.join(self)


class SealedBranch(msgspec.Struct, frozen=True):
    """What one attempt at a branch has written, all of it acknowledged. Picklable: it is sent back to the driver."""

    transactional_id: str
    branch: int
    producer: ProducerIdentity


class _InBranch(Plain):
    """Batches under a branch's identity; the first failure ends the attempt."""

    is_transactional = True

    def __init__(self, sender: Sender, transactional_id: str, identity: ProducerIdentity) -> None:
        super().__init__(sender)
        self.transactional_id = transactional_id
        self.identity = identity

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
        self.refusal = error
        self._sender.fail_all(error)


class BranchWriter(AsyncProducer):
    """One attempt at one branch, for the worker that has the token.

        async with await token.open(cluster) as writer:
            await writer.send("orders", b"...")
            sealed = await writer.seal()
        return sealed

    What is not sealed, or sealed and not named in the commit, is aborted with the transaction.
    """

    __slots__ = ("_identity", "_is_sealed", "_token")

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
        self._identity = identity
        self._sender.guarantee = self._guarantee = _InBranch(self._sender, token.transactional_id, identity)

    async def seal(self) -> SealedBranch:
        """Wait until everything is acknowledged; raise what was not. Nothing more can be sent after this."""
        await self.flush()
        guarantee = self._sender.guarantee
        if guarantee.refusal is not None and not self._is_sealed:
            raise guarantee.refusal
        self._is_sealed = True
        guarantee.refusal = InvalidTransactionState("the branch is sealed, so that no more can be sent.")
        return SealedBranch(self._token.transactional_id, self._token.branch, self._identity)


async def join(runtime: ClientRuntime, token: BranchToken, config: ProducerConfig | None = None) -> BranchWriter:
    """Begin an attempt at the branch of a token."""
    if token.cluster and runtime.cluster and token.cluster != runtime.cluster:
        raise RefusedError(f"the token belongs to cluster {token.cluster!r}, but this is {runtime.cluster!r}.")
    reply = await _ask(runtime, token.transactional_id, "opening a branch of", OpenBranch, token.owner)
    return BranchWriter(runtime, token, reply.producer, config)


async def begin(
    runtime: ClientRuntime, transactional_id: str, *, tag: str, timeout_ms: int = 60_000, shared: bool = False
) -> AsyncTransaction:
    """Begin a transaction with branches; whoever had the transactional id before is fenced.

    With `shared`, who comes with the tag of the open transaction takes part in it and fences nobody. A tag in the form
    `series#number` is refused where a later number of its series is open, and committed where a later one is.
    """
    reply: BranchedReply = await _ask(
        runtime, transactional_id, "beginning a transaction of", BeginBranched, tag, timeout_ms, shared
    )
    return AsyncTransaction(runtime, transactional_id, tag, reply.producer, already_committed=reply.tag_is_committed)


async def _ask(runtime: ClientRuntime, transactional_id: str, doing: str, message_type: type, *fields: object) -> Any:  # noqa: ANN401 - the reply that belongs to the request
    return await call_patiently(
        runtime,
        lambda: runtime.view.transaction_coordinator(transactional_id),
        f"{doing} transactional id {transactional_id!r}",
        message_type,
        transactional_id,
        *fields,
        patience=Patience(),
    )


class AsyncTransaction:
    """A transaction whose branches others write, from the place of the driver that decides over it.

    Owns: the transaction, as long as nobody begins another one under the same transactional id. `commit` is decided by
    one record in the coordinator's log; the tag makes it idempotent: a driver that comes back after a crash and
    begins the same tag again sees `already_committed` and has nothing to do.
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
            await self._send_offsets(offsets, as_group(group))
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

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        await call_patiently(
            self._runtime,
            lambda: self._runtime.view.group_coordinator(group.group_id),
            f"committing offsets of group {group.group_id!r} with {self.transactional_id!r}",
            CommitTransactionOffsets,
            group.group_id,
            self.transactional_id,
            self.owner,
            offsets_to_commit(offsets),
            group.generation,
            group.member_id,
            group.group_instance_id,
            IMPLICIT_VERSION,
            patience=Patience(),
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
        if self._outcome is None:
            try:
                await self.abort()
            except EaglerayError as error:
                if kind is None:
                    raise
                logger.warning("aborting the transaction of %r: %s", self.transactional_id, error)
