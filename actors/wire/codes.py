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
"""What a leader hears of a coordinator that cannot say yet whether a transaction has a partition."""


def for_producer(error_code: ErrorCode, version: int, *, fenced_since: int, abortable_since: int) -> ErrorCode:
    """Say a coordinator's error in the words of a version: PRODUCER_FENCED and TRANSACTION_ABORTABLE came later."""
    if error_code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error_code is ErrorCode.TRANSACTION_ABORTABLE and version < abortable_since:
        return ErrorCode.INVALID_TXN_STATE
    return error_code


def for_batch(error_code: ErrorCode, version: int) -> ErrorCode:
    """Say what a leader, or the coordinator it has asked, has against a batch.

    Producers repeat a batch that met too few replicas, and know no coordinator's codes in this place.
    """
    if error_code in _UNVERIFIED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    # Fencing by the epoch of a batch has a code of its own, in which all versions of producers believe.
    return for_producer(error_code, version, fenced_since=_NEVER, abortable_since=11)


def for_offsets_in_transaction(error_code: ErrorCode, version: int) -> ErrorCode:
    """Say what a group coordinator, or the coordinator it has asked, has against offsets of a transaction."""
    if error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
        # All versions of producers ask again in a moment for this one.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error_code is ErrorCode.STALE_MEMBER_EPOCH:
        # Producers know the code of classic groups, and abort.
        return ErrorCode.ILLEGAL_GENERATION
    return for_producer(error_code, version, fenced_since=_NEVER, abortable_since=4)


_NEVER: Final = 2**15
