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
    COMMITTING = "committing"
    ABORTING = "aborting"
    CHECKING = "finding out whether it was fenced or its transaction was ended for it"
    FAILED = "in a transaction that has failed: abort() it"
    DEAD = "at its end"


ENDING: Final = frozenset({State.COMMITTING, State.ABORTING})
ENDABLE: Final = frozenset({State.OPEN, State.COMMITTING, State.ABORTING})
IN_DOUBT: Final = TransactionAborted("the transaction cannot go on: a partition or a coordinator has refused it.")
IS_ENDING: Final = InvalidTransactionState("cannot send: the transaction is being committed or aborted.")
NOT_BEGUN: Final = InvalidTransactionState(f"cannot send: the producer is {State.READY.value}.")
