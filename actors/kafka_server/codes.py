"""Error codes as clients of each version know them."""

from __future__ import annotations

from typing import Final

from eagleray.protocol.errors import ErrorCode

_UNVERIFIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a leader gets from a coordinator that cannot say yet whether a transaction has a partition."""


def for_producer(error_code: ErrorCode, version: int, *, fenced_since: int, abortable_since: int) -> ErrorCode:
    """Translate a coordinator's error for a version: PRODUCER_FENCED and TRANSACTION_ABORTABLE came later."""
    if error_code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error_code is ErrorCode.TRANSACTION_ABORTABLE and version < abortable_since:
        return ErrorCode.INVALID_TXN_STATE
    return error_code


def for_batch(error_code: ErrorCode, version: int) -> ErrorCode:
    """Translate the error of a leader, or of the coordinator that it asked, about a batch.

    Producers repeat a batch that met too few replicas, and know no coordinator's codes in this place.
    """
    if error_code in _UNVERIFIED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    # Fencing by the epoch of a batch has a code of its own, which all versions of producers understand.
    return for_producer(error_code, version, fenced_since=_NEVER, abortable_since=11)


def for_offsets_in_transaction(error_code: ErrorCode, version: int) -> ErrorCode:
    """Translate the error of a group coordinator, or the coordinator that it asked, about offsets in a transaction."""
    if error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
        # On this one all versions of producers ask again in a moment.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error_code is ErrorCode.STALE_MEMBER_EPOCH:
        # Producers know the code of classic groups, and abort.
        return ErrorCode.ILLEGAL_GENERATION
    return for_producer(error_code, version, fenced_since=_NEVER, abortable_since=4)


_NEVER: Final = 2**15
