"""The one transaction of `eagleray produce`, driven so that its outcome is known whatever interrupts it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from eagleray.broker.identities import ProducerIdentity
from eagleray.cli.output import note
from eagleray.cli.transaction_outcome import Event, Outcome, State, event_from
from eagleray.client.errors import AbortableError, EaglerayError, InvalidTransactionState, ProducerFenced
from eagleray.client.producer.producer import AsyncProducer

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_ANSWER_S: Final = 10.0
"""How long an interrupted command waits for the coordinator; a second interrupt ends that as well."""


class OneTransaction:
    """Commits what is sent within it, or aborts it.

    Owns: nothing. On failure or interrupt: `outcome` says what became of the transaction, or that this is not known.
    """

    def __init__(self, session: Session, producer: AsyncProducer, outcome: Outcome) -> None:
        assert producer.transactional_id is not None
        self._admin = session.cluster.admin
        self._producer = producer
        self._transactional_id = producer.transactional_id
        self._outcome = outcome
        self._fenced: ProducerFenced | None = None

    async def run(self, send_all: Callable[[], Awaitable[None]]) -> None:
        """Begin, send, and commit; whatever goes wrong before the commit aborts."""
        # Known before anything is sent: a newer producer would keep this one from sending.
        identity = (await self._admin.describe_transaction(self._transactional_id)).producer
        self._producer.begin()
        try:
            await send_all()
        except BaseException as error:
            await self._take(_event_while_reading(error))
            self._raise_if_fenced(error)
            raise
        self._outcome.on(Event.INPUT_ENDED)
        await self._commit(identity)

    async def _commit(self, identity: ProducerIdentity) -> None:
        # A task of its own keeps its result, although the one that waits for it is cancelled.
        commit = asyncio.ensure_future(self._producer.commit())
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            self._outcome.on(Event.INTERRUPTED)
            await self._ask(commit, identity)
            raise
        except EaglerayError as error:
            await self._on_failed(error, commit, identity)
            if not self._outcome.is_committed:
                self._raise_if_fenced(error)
                raise
        else:
            self._outcome.on(Event.COMMITTED)

    async def _on_failed(self, error: EaglerayError, commit: asyncio.Future[None], identity: ProducerIdentity) -> None:
        if isinstance(error, AbortableError):
            await self._take(Event.REFUSED)
            return
        # The coordinator may have committed before its answer was lost.
        self._outcome.on(Event.FAILED)
        note("the commit has failed; asking the transaction's coordinator how it ended...")
        await self._ask(commit, identity)

    async def _take(self, event: Event) -> None:
        self._outcome.on(event)
        if self._outcome.state is State.ABORTING:
            await self._abort()

    async def _ask(self, commit: asyncio.Future[None], identity: ProducerIdentity) -> None:
        """Find out how a commit ended that was interrupted or failed: the producer repeats it until it is answered."""
        commit.add_done_callback(_look_at)
        if not commit.done():
            note("interrupted while the transaction is being committed; asking its coordinator how it ended...")
        try:
            await asyncio.wait({commit}, timeout=_ANSWER_S)
            event = _event_of(commit)
            if event in (Event.FAILED, Event.FENCED):
                found = await self._described(identity)
                event = event if found is Event.FAILED else found
        except asyncio.CancelledError:
            event = Event.INTERRUPTED
        await self._take(event)

    async def _described(self, identity: ProducerIdentity) -> Event:
        try:
            async with asyncio.timeout(_ANSWER_S):
                return event_from(await self._admin.describe_transaction(self._transactional_id), identity)
        except (EaglerayError, TimeoutError):
            return Event.FAILED

    def _raise_if_fenced(self, error: BaseException) -> None:
        """Raise what explains an error: a newer producer has the transactional id, as the abort has shown.

        Its first sign may be a refused record, after which running the command again would be right; here it would
        fence the newer producer.
        """
        if self._fenced is not None and isinstance(error, EaglerayError):
            raise self._fenced from error

    async def _abort(self) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self._producer.abort()
        except asyncio.CancelledError:
            self._outcome.on(Event.INTERRUPTED)
        except InvalidTransactionState:
            # Nothing is open: the commit that was refused has aborted it.
            self._outcome.on(Event.ABORTED)
        except ProducerFenced as error:
            self._fenced = error
            self._outcome.on(Event.FENCED)
        except (EaglerayError, TimeoutError):
            self._outcome.on(Event.FAILED)
        else:
            self._outcome.on(Event.ABORTED)


def _event_while_reading(error: BaseException) -> Event:
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return Event.INTERRUPTED
    return Event.FENCED if isinstance(error, ProducerFenced) else Event.FAILED


def _event_while_committing(error: BaseException) -> Event:
    if isinstance(error, AbortableError):
        return Event.REFUSED
    return Event.FENCED if isinstance(error, ProducerFenced) else Event.FAILED


def _event_of(commit: asyncio.Future[None]) -> Event:
    if not commit.done() or commit.cancelled():
        return Event.FAILED
    error = commit.exception()
    return Event.COMMITTED if error is None else _event_while_committing(error)


def _look_at(commit: asyncio.Future[None]) -> None:
    """Retrieve the error of a commit that is no longer awaited; asyncio would log it otherwise."""
    if not commit.cancelled():
        commit.exception()
