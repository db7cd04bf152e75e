"""A driver with a series of tags: for each it commits the branches that were sealed, once, however often it dies."""

from typing import TYPE_CHECKING, Any

import msgspec

from eagleray.actors.roles.coordinators import coordinator_of_transaction
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.branches.tags import tag_in_series
from eagleray.broker.transactions.events import (
    BeginBranched,
    CompleteTransaction,
    EndBranched,
    OpenBranch,
    PrepareTransaction,
)
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.places import INPUTS
from tests.simulation.cluster.producers import Fenced, TransactionalProducer
from tests.simulation.schedule import Violation
from tests.support.history import Outcome, Transaction

if TYPE_CHECKING:
    from tests.simulation.cluster.harness import Harness

MOST_BRANCHES = 3
IS_SEALED, PREPARES, COMMITS, DIES, LOOKS_BACK = 0.7, 0.4, 0.8, 0.15, 0.3
NOT_PREPARED = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""What a token is told whose transaction another begin has aborted."""


class Attempt(msgspec.Struct):
    """What the driver knows of the tag at hand, also when it has died and come back."""

    places: list[int] = []
    """The transactions of the history that are its sealed branches."""

    asked_to_commit: bool = False
    token: ProducerIdentity | None = None
    """That the other system has, which then wants a commit."""


class TaggedDriver(TransactionalProducer):
    """Begins a transaction for each tag, has branches written, seals some, and commits them, perhaps in two phases.

    It dies at any point, and begins the same tag again. What it is told then is what the attempt before has come to:
    the tag is committed, with each branch that was sealed and no other, or nothing of it will ever be seen.
    """

    def __init__(self, harness: "Harness", name: str, transactions: int) -> None:
        super().__init__(harness, name, transactions)
        self._number = 0
        self._attempt = Attempt()

    async def run(self) -> None:
        await self.look_around()
        while self._left:
            self._incarnation += 1
            try:
                await self._transact()
                await self.think(self.harness.fault_plan.longest_pause_ms)
            except Fenced:
                self.harness.schedule.fired["driver begins its tag again"] += 1
        await self._initialize()
        self.is_done = True

    async def _transact(self) -> None:
        was_completed = await self._complete()
        is_committed = await self._begin_tag(self._number)
        if was_completed and not is_committed:
            raise Violation(f"{self.name}#{self._number} was completed by its token, and is not committed")
        self._settle(is_committed=is_committed)
        if is_committed:
            self.harness.schedule.fired["tag found committed"] += 1
            await self._next_tag()
            return
        sealed = await self._write_branches()
        self._may_die("before the end")
        if self.harness.schedule.happens(PREPARES):
            await self._prepare(sealed)
        commits = self._attempt.token is not None or self.harness.schedule.happens(COMMITS)
        self._attempt.asked_to_commit |= commits
        await self._ask_coordinator(EndBranched, self._identity, commits, sealed if commits else ())
        self._may_die("with the answer")
        self._settle(is_committed=commits)
        if commits:
            await self._next_tag()
        self._left -= 1

    async def _begin_tag(self, number: int) -> bool:
        """Take the transactional id over for a tag; return whether that is committed."""
        timeout_ms = self.harness.fault_plan.transaction_timeout_ms
        reply = await self._ask_coordinator(BeginBranched, tag_in_series(self.name, number), timeout_ms)
        self._identity = reply.producer
        is_committed: bool = reply.tag_is_committed
        return is_committed

    async def _next_tag(self) -> None:
        self._number += 1
        if self.harness.schedule.happens(LOOKS_BACK):
            back = self.chance.randint(1, self._number)
            if not await self._begin_tag(self._number - back):
                raise Violation(f"{self.name}#{self._number - back} is not known to be committed, {back} tags later")
            self.harness.schedule.fired["earlier tag found committed"] += 1

    # Branches

    async def _write_branches(self) -> tuple[ProducerIdentity, ...]:
        owner, sealed = self._identity, []
        for _ in range(self.chance.randint(1, MOST_BRANCHES)):
            is_sealed = self.harness.schedule.happens(IS_SEALED)
            branch = await self._write_branch(owner, is_sealed=is_sealed)
            if is_sealed:
                sealed.append(branch)
        self._identity = owner
        return tuple(sealed)

    async def _write_branch(self, owner: ProducerIdentity, *, is_sealed: bool) -> ProducerIdentity:
        places = [place for place in INPUTS if self.harness.schedule.happens(0.7)] or [INPUTS[0]]
        transaction = self._begin(places)
        if is_sealed:
            self._attempt.places.append(len(self.history) - 1)
        else:
            self._know(Outcome.ABORTED)
        self._identity, self._sequences = await self._coordinate(OpenBranch, owner), {}
        for place in places:
            await self._produce(place, [each for each in transaction.records if each.partition == place], self.name)
        self.harness.schedule.fired["branch sealed" if is_sealed else "branch left out"] += 1
        return self._identity

    # Two phases

    async def _prepare(self, sealed: tuple[ProducerIdentity, ...]) -> None:
        """Prepare, note the token elsewhere, and perhaps die with it."""
        token = await self._coordinate(PrepareTransaction, self._identity, b"42", sealed)
        self._may_die("before the other system has its token")
        self._attempt.asked_to_commit, self._attempt.token = True, token
        await self._commit_otherwise(sealed)
        self._may_die("prepared")

    async def _commit_otherwise(self, sealed: tuple[ProducerIdentity, ...]) -> None:
        """No other branches are committed than those with which the transaction was prepared."""
        coordinator = coordinator_of_transaction(self.image, self.name)
        if sealed:
            reply = await self.ask(coordinator, EndBranched, self.name, self._identity, True, sealed[1:])
            if reply is not None and reply.error_code is ErrorCode.NONE:
                raise Violation(f"{self.name} has committed {sealed[1:]} of {sealed} that it has prepared")

    async def _complete(self) -> bool:
        """Complete by its token what was prepared before a death; return whether that is done."""
        token = self._attempt.token
        if token is None:
            return False
        reply = await self._ask_coordinator(CompleteTransaction, token, True, or_told=NOT_PREPARED)
        is_done: bool = reply.error_code is ErrorCode.NONE
        self.harness.schedule.fired["branches completed by their token" if is_done else "token refused"] += 1
        return is_done

    # What is known

    def _settle(self, *, is_committed: bool) -> None:
        """Note what the last attempt has come to."""
        attempt, self._attempt = self._attempt, Attempt()
        if is_committed and not attempt.asked_to_commit:
            raise Violation(f"{self.name}#{self._number} is committed, which its driver has not asked for")
        for place in attempt.places:
            known, outcome = self.history[place], Outcome.COMMITTED if is_committed else Outcome.ABORTED
            self.history[place] = Transaction(known.name, known.records, known.offsets, outcome)

    def _may_die(self, when: str) -> None:
        if self.harness.schedule.happens(DIES):
            self.harness.schedule.fired[f"driver died {when}"] += 1
            raise Fenced

    def _go_on_after(self, reply: Any) -> None:
        if reply is not None and reply.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            # Of a branch that is over and forgotten.
            raise Fenced
        super()._go_on_after(reply)
