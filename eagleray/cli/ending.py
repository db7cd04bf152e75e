"""Ending a transaction from the command line: by its id alone, or by the producer that an operator has seen in it."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING, Final

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.transactions.descriptions import ListTransactions, TransactionDescription
from eagleray.broker.transactions.pools.names import SlotName, slot_of
from eagleray.cli.errors import UsageError
from eagleray.cli.output import ago, counted
from eagleray.client.calls import Question
from eagleray.client.errors import CompletedOtherwise, InvalidTransactionState
from eagleray.client.producer import completing
from eagleray.client.producer.coordinator_call import ask_coordinator
from eagleray.client.producer.prepared import PreparedTransaction

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_ABORTED: Final = ("PrepareAbort", "CompleteAbort")
_PRODUCER: Final = re.compile(r"([0-9]{1,18}):([0-9]{1,5})")


def producer_from(text: str) -> ProducerIdentity:
    """Read --producer."""
    found = _PRODUCER.fullmatch(text)
    if found is None or int(found[2]) > LAST_EPOCH:
        raise UsageError(
            f"--producer is {text!r}; expected PRODUCER-ID:EPOCH, as in 42:7; `eagleray txn describe ID` shows both."
        )
    return ProducerIdentity(int(found[1]), int(found[2]))


def command_for(found: TransactionDescription, word: str) -> str:
    """Return the command that ends exactly the transaction that was found."""
    producer = f"{found.producer.producer_id}:{found.producer.epoch}"
    unprepared = "" if found.prepared_ms >= 0 else " --unprepared"
    return f"eagleray txn {word} {quote(found.transactional_id)} --producer {producer}{unprepared}"


def ways_to_end(found: TransactionDescription) -> str:
    """Say how an open transaction is ended."""
    if not found.is_in_two_phases:
        return f"to end it: eagleray txn abort {quote(found.transactional_id)}"
    return (
        f"if the other system has committed its part: {command_for(found, 'commit')}; "
        f"if it has not, and will not: {command_for(found, 'abort')}"
    )


async def end(session: Session, transactional_id: str, producer: str | None, *, commit: bool, unprepared: bool) -> str:
    """End a transaction, and return what to say about it."""
    if producer is not None:
        token = PreparedTransaction(transactional_id, producer_from(producer))
        return await _end_that(session, token, commit=commit, unprepared=unprepared)
    if unprepared:
        raise UsageError(
            "--unprepared needs --producer PRODUCER-ID:EPOCH, so that it ends the transaction that you have looked at; "
            f"`eagleray txn describe {quote(transactional_id)}` shows them."
        )
    found = await session.cluster.admin.describe_transaction(transactional_id)
    if commit or (found.state == "Ongoing" and found.is_in_two_phases):
        raise UsageError(_why_not(found, commit=commit))
    slots = await slots_of(session, transactional_id)
    await session.cluster.admin.abort_transaction(transactional_id)
    if slots:
        return _fenced_pool(found, slots, await slots_of(session, transactional_id))
    what = "aborted its transaction" if found.state == "Ongoing" else f"nothing was open ({found.state})"
    return f"{transactional_id}: {what}, and its producer is fenced"


async def slots_of(session: Session, name: str) -> list[TransactionDescription]:
    """Ask the coordinator of a name, which keeps all slots of its pool, for these; there are none in any other."""
    doing = "listing the slots of"
    reply = await ask_coordinator(session.cluster.runtime, name, doing, Question(ListTransactions, (), (), -1))
    found = ((slot_of(each.transactional_id), each) for each in reply.transactions)
    return [each for slot, each in sorted(found, key=_number_of) if slot is not None and slot.pool == name]


def _number_of(found: tuple[SlotName | None, TransactionDescription]) -> int:
    return -1 if found[0] is None else found[0].number


def _fenced_pool(
    own: TransactionDescription, before: list[TransactionDescription], after: list[TransactionDescription]
) -> str:
    """Say what has become of a pool whose name an operator has taken from it."""
    was_open = {each.transactional_id for each in before if each.state == "Ongoing"}
    aborted = sum(each.transactional_id in was_open and each.state in _ABORTED for each in after)
    parts = [f"fenced the pool with its {counted(len(before), 'slot')}"]
    if own.state == "Ongoing":
        parts.append("aborted the transaction of its own name")
    parts.append(f"aborted {counted(aborted, 'open transaction')}" if aborted else "nothing was open in its slots")
    prepared = [each for each in after if each.prepared_ms >= 0]
    if prepared:
        left = ", ".join(each.transactional_id for each in prepared)
        parts.append(f"left prepared: {left}; `eagleray txn describe ID` shows how each is ended")
    return f"{own.transactional_id}: {'; '.join(parts)}"


def _why_not(found: TransactionDescription, *, commit: bool) -> str:
    """Say why an id alone does not say enough."""
    name = found.transactional_id
    if found.state != "Ongoing":
        return f"{name} has no open transaction ({found.state}), so that there is nothing to commit."
    if found.is_in_two_phases:
        since = f"has been prepared for {ago(found.prepared_ms)}" if found.prepared_ms >= 0 else "has no timeout"
        has, word = ("has", "commit") if commit else ("has not, and will not", "abort")
        return (
            f"the transaction of {name} {since}: another system may have committed its part by now. If it {has}, "
            f"{word} it with `{command_for(found, word)}`."
        )
    return (
        f"the transaction of {name} is open and not prepared, so that records of it may be missing. To commit it all "
        f"the same: `{command_for(found, 'commit')}`."
    )


async def _end_that(session: Session, token: PreparedTransaction, *, commit: bool, unprepared: bool) -> str:
    name, producer = token.transactional_id, f"{token.producer.producer_id}:{token.producer.epoch}"
    try:
        await completing.complete(session.cluster.runtime, token, commit=commit, is_unprepared=unprepared)
    except CompletedOtherwise:
        ended, wanted = ("aborted", "committed") if commit else ("committed", "aborted")
        raise UsageError(
            f"the transaction of {name} with producer {producer} was {ended} before and cannot be {wanted} any more."
        ) from None
    except InvalidTransactionState:
        found = await session.cluster.admin.describe_transaction(name)
        raise UsageError(_why_not_that(found, producer, commit=commit, unprepared=unprepared)) from None
    return f"{name}: {'committed' if commit else 'aborted'} the transaction of producer {producer}"


def _why_not_that(found: TransactionDescription, producer: str, *, commit: bool, unprepared: bool) -> str:
    name = found.transactional_id
    if found.state != "Ongoing":
        return f"producer {producer} of {name} has nothing open ({found.state})."
    if unprepared and commit:
        return (
            f"the transaction of {name} has many writers and is not prepared: which of them are done is not known, so "
            f"that it can only be aborted: `{command_for(found, 'abort')}`."
        )
    word = "commit" if commit else "abort"
    return (
        f"the transaction of {name} is open and not prepared, so that records of it may be missing. To {word} it all "
        f"the same: `{command_for(found, word)}`."
    )
