"""Asks the coordinator of a transactional id, for those who wait for its answer."""

from __future__ import annotations

from eagleray.actors.lanes.link import Reply
from eagleray.broker.transactions.events import BeginBranched, BranchedReply
from eagleray.broker.transactions.origin import Origin
from eagleray.client import validation
from eagleray.client.calls import Question, call_with_retries, error_in
from eagleray.client.errors import EaglerayError, RefusedError, TransactionHeldTooLong
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode


async def ask_coordinator(
    runtime: ClientRuntime, transactional_id: str, doing: str, question: Question[Reply]
) -> Reply:
    """Ask until there is an answer; raises where it is a refusal."""
    return await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(transactional_id),
        f"{doing} transactional id {transactional_id!r}",
        question,
        retry_policy=RetryPolicy(),
        exception_for=_refused,
    )


def _refused(error_code: ErrorCode, doing: str, reply: object) -> EaglerayError:
    """Return the exception for a reply, which may say why the coordinator has ended the transaction."""
    why = getattr(reply, "message", None)
    return error_in(error_code, doing, reply) if why is None else TransactionHeldTooLong(f"{doing}: {why}.", error_code)


async def ask_to_begin(
    runtime: ClientRuntime,
    transactional_id: str,
    tag: str,
    timeout_ms: int,
    *,
    shared: bool,
    opens_branch: bool = False,
    origin: Origin | None = None,
    begins_anew: bool = False,
) -> BranchedReply:
    """Begin a transaction with many writers, or take part in it; raises where that is refused."""
    validation.branched_id(transactional_id)
    validation.text("the tag", tag)
    validation.integer("timeout_ms", timeout_ms, 1, validation.MAX_INT32)
    doing = "taking part in" if opens_branch else "beginning"
    return await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(transactional_id),
        f"{doing} a transaction of transactional id {transactional_id!r}",
        Question(
            BeginBranched,
            transactional_id,
            tag,
            timeout_ms,
            shared,
            opens_branch,
            origin or runtime.origin,
            begins_anew,
        ),
        retry_policy=RetryPolicy(),
        exception_for=_refused_to_begin,
    )


def _refused_to_begin(error_code: ErrorCode, doing: str, reply: object) -> EaglerayError:
    """Return the exception for a refusal; what the arguments alone have wrong is refused before the question."""
    if error_code is ErrorCode.INVALID_REQUEST:
        return RefusedError(
            f"{doing}: the name is that of a pool of transactions, with slots of its own, and a transaction with many "
            "writers cannot have it as well. Choose another transactional id; the pool is forgotten when none of it "
            "was used for transactional.id.expiration.ms.",
            error_code,
        )
    if error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return RefusedError(f"{doing}: timeout_ms is above transaction.max.timeout.ms of the cluster.", error_code)
    return _refused(error_code, doing, reply)
