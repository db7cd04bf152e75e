"""How the one transaction of `eagleray produce` ended: a state machine, so that what is said is what happened.

    reading ──input ended──► committing ──committed──► COMMITTED
       │                        │  │ ▲
       │ interrupted, failed    │  │ └── refused ──► aborting
       ▼                        │  └── interrupted, failed ──► asking ──► COMMITTED, ABORTED or UNKNOWN
    aborting ──aborted──► ABORTED
       └── interrupted, failed ──► LEFT_OPEN

A newer producer of the same transactional id fences this one: FENCED where the commit was not asked for yet, and
FENCED_COMMITTING where it was and the coordinator cannot say any more how it ended.

Before the commit is asked for nothing can become visible, whatever arrives. From then on the coordinator alone
knows: an interrupt or an error begins to ask it, and a second interrupt, or a coordinator that does not answer, leaves
it unknown.
"""

from __future__ import annotations

import enum
from typing import Final

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.descriptions import TransactionDescription


class State(enum.Enum):
    """Where the transaction is."""

    READING = "reading"
    COMMITTING = "committing"
    ASKING = "asking"
    """Interrupted while committing, or the commit has failed: what the coordinator says counts."""

    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"
    LEFT_OPEN = "left open"
    """Not committed, and not aborted as far as is known: the coordinator aborts it when its time is up."""

    FENCED = "fenced"
    """A newer producer has ended it before it could be committed; what is open under the id is not this one's."""

    FENCED_COMMITTING = "fenced while committing"
    """What the coordinator knows is about a newer producer by now."""

    UNKNOWN = "unknown"


class Event(enum.Enum):
    """What can happen to it."""

    INPUT_ENDED = "input ended"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """An error that says nothing about what the coordinator has done."""

    REFUSED = "refused"
    """The commit was refused for good, and can only be aborted."""

    FENCED = "fenced"
    """A newer producer has taken the transactional id over."""

    COMMITTED = "committed"
    ABORTED = "aborted"


_ENDS: Final = (
    State.COMMITTED,
    State.ABORTED,
    State.LEFT_OPEN,
    State.FENCED,
    State.FENCED_COMMITTING,
    State.UNKNOWN,
)
TRANSITIONS: Final = {
    State.READING: {
        Event.INPUT_ENDED: State.COMMITTING,
        Event.INTERRUPTED: State.ABORTING,
        Event.FAILED: State.ABORTING,
        Event.FENCED: State.FENCED,
    },
    State.COMMITTING: {
        Event.COMMITTED: State.COMMITTED,
        Event.REFUSED: State.ABORTING,
        Event.INTERRUPTED: State.ASKING,
        Event.FAILED: State.ASKING,
    },
    State.ASKING: {
        Event.COMMITTED: State.COMMITTED,
        Event.ABORTED: State.ABORTED,
        Event.REFUSED: State.ABORTING,
        Event.INTERRUPTED: State.UNKNOWN,
        Event.FAILED: State.UNKNOWN,
        Event.FENCED: State.FENCED_COMMITTING,
    },
    State.ABORTING: {
        Event.ABORTED: State.ABORTED,
        Event.INTERRUPTED: State.LEFT_OPEN,
        Event.FAILED: State.LEFT_OPEN,
        Event.FENCED: State.FENCED,
    },
    # What has been decided stays so, whatever happens while the producer is closed.
    **{end: {Event.INTERRUPTED: end, Event.FAILED: end} for end in _ENDS},
}


class Outcome:
    """Follows one transaction from its first line to its end."""

    def __init__(self, transactional_id: str) -> None:
        self.state = State.READING
        self._transactional_id = transactional_id

    def on(self, event: Event) -> None:
        """Take what has happened."""
        self.state = TRANSITIONS[self.state][event]

    def given_up(self) -> Outcome:
        """What is known of it where the process ends at once, whatever is still under way."""
        end = Outcome(self._transactional_id)
        end.state = self.state
        while (then := TRANSITIONS[end.state][Event.INTERRUPTED]) is not end.state:
            end.state = then
        return end

    @property
    def is_committed(self) -> bool:
        """Whether every record is visible, or about to be."""
        return self.state is State.COMMITTED

    @property
    def sentence(self) -> str:
        """Say what became of the records."""
        name = self._transactional_id
        match self.state:
            case State.COMMITTED:
                return "the transaction was committed"
            case State.LEFT_OPEN:
                return f"nothing was committed; `eagleray txn abort {name}` ends what may still be open"
            case State.FENCED:
                return "nothing was committed, and nothing of it is left open"
            case State.FENCED_COMMITTING:
                return (
                    f"whether the transaction was committed is not known, because a newer producer has taken {name} "
                    "over; read the topic before you write the same records again"
                )
            case State.COMMITTING | State.ASKING | State.UNKNOWN:
                return (
                    "whether the transaction was committed is not known, because its coordinator has not said so; "
                    f"`eagleray txn describe {name}` shows it: CompleteCommit where it was"
                )
            case State.READING | State.ABORTING | State.ABORTED:
                return "nothing was committed"


_COMMITTED: Final = ("PrepareCommit", "CompleteCommit")
_ABORTED: Final = ("PrepareAbort", "CompleteAbort")


def event_from(found: TransactionDescription, producer: ProducerIdentity) -> Event:
    """Tell from what a coordinator knows of a transactional id how the transaction of a producer ended.

    Ending a transaction may raise the epoch by one; a newer producer of the same id has raised it by more, and what
    the coordinator knows then is about that one.
    """
    if found.producer.producer_id != producer.producer_id or found.producer.epoch - producer.epoch not in (0, 1):
        return Event.FENCED
    if found.state in _COMMITTED:
        return Event.COMMITTED
    if found.state in _ABORTED:
        return Event.ABORTED
    return Event.FAILED
