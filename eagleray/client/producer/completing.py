"""Ends a prepared transaction by its token, from wherever the token is."""

from __future__ import annotations

from eagleray.broker.transactions.descriptions import DescribeTransaction, TransactionDescription
from eagleray.broker.transactions.events import CompleteTransaction, Reply
from eagleray.client.calls import Question, call_with_retries, error_in
from eagleray.client.errors import (
    CompletedOtherwise,
    EaglerayError,
    InvalidArgument,
    InvalidTransactionState,
    TransactionNotFound,
)
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

_UNKNOWN = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


async def complete(
    runtime: ClientRuntime, prepared: PreparedTransaction, *, commit: bool, is_unprepared: bool = False
) -> None:
    """Commit or abort the transaction of a token; with `is_unprepared` also one that is open and not prepared.

    Raises CompletedOtherwise where it has ended the other way, TransactionNotFound where its coordinator knows nothing
    of it any more, and InvalidTransactionState where it is open and not prepared.
    """
    if not isinstance(prepared, PreparedTransaction):
        raise InvalidArgument(f"{prepared!r} is no PreparedTransaction; PreparedTransaction.parse makes one of a text.")
    try:
        await call_with_retries(
            runtime,
            lambda: runtime.view.transaction_coordinator(prepared.transactional_id),
            f"completing {prepared}",
            Question(CompleteTransaction, prepared.transactional_id, prepared.producer, commit, is_unprepared),
            retry_policy=RetryPolicy(),
            exception_for=_exception_for,
        )
    except EaglerayError as error:
        if error.error_code is not ErrorCode.INVALID_TXN_STATE:
            raise
        raise _refusal(prepared, await _described(runtime, prepared), commit=commit) from None


def _exception_for(error_code: ErrorCode, doing: str, reply: Reply) -> EaglerayError:
    if error_code in _UNKNOWN:
        return TransactionNotFound(f"{doing}: no transaction that is open or remembered has this token.", error_code)
    return error_in(error_code, doing, reply)


async def _described(runtime: ClientRuntime, prepared: PreparedTransaction) -> TransactionDescription | None:
    reply = await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(prepared.transactional_id),
        f"asking about {prepared}",
        Question(DescribeTransaction, prepared.transactional_id),
        retry_policy=RetryPolicy(),
    )
    return reply.transaction


def _refusal(
    prepared: PreparedTransaction, found: TransactionDescription | None, *, commit: bool
) -> InvalidTransactionState | CompletedOtherwise:
    wanted, ended = ("commit", "aborted") if commit else ("abort", "committed")
    if found is None or found.producer != prepared.producer:
        return CompletedOtherwise(f"cannot {wanted} {prepared}: it was {ended} before.", ErrorCode.INVALID_TXN_STATE)
    if found.state == "Ongoing":
        why = "it is open and not prepared, so that records of it may be missing"
    else:
        why = "its producer has not begun it"
    return InvalidTransactionState(f"cannot {wanted} {prepared}: {why}.", ErrorCode.INVALID_TXN_STATE)
