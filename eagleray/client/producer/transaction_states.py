"""Where a producer with transactions can be, and what it refuses there."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.client.errors import InvalidTransactionState, TransactionAborted


class State(enum.Enum):
    """Where a producer and its transaction are."""

    UNINITIALIZED = "not initialized: call init() first"
    INITIALIZING = "being initialized"
    READY = "without a transaction: begin() one first"
    OPEN = "in a transaction"
    PREPARING = "preparing its transaction"
    PREPARED = "in a prepared transaction: commit(), abort() or complete() it"
    COMMITTING = "committing"
    ABORTING = "aborting"
    CHECKING = "finding out whether it was fenced or its transaction was ended for it"
    FAILED = "in a transaction that has failed: abort() it"
    DEAD = "at its end"


ENDING: Final = (State.COMMITTING, State.ABORTING)
ENDABLE: Final = (State.OPEN, State.PREPARING, State.COMMITTING, State.ABORTING)
FAILABLE: Final = (State.OPEN, State.PREPARING, State.COMMITTING)
UNPREPARED: Final = (State.OPEN, State.PREPARING, State.FAILED)
"""Where an exception in the block of a transaction, or the end of its producer, aborts it."""

IN_DOUBT: Final = TransactionAborted("the transaction cannot go on: a partition or a coordinator has refused it.")
IS_ENDING: Final = InvalidTransactionState("cannot send: the transaction is being committed or aborted.")
IS_PREPARED: Final = InvalidTransactionState("cannot send: the transaction is prepared, or about to be.")
NOT_BEGUN: Final = InvalidTransactionState(f"cannot send: the producer is {State.READY.value}.")
