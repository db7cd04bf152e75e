"""Write docs/states.md from the tables of the state machines, or check that it is up to date.

python scripts/state_diagrams.py            # write it
python scripts/state_diagrams.py --check    # fail if it would change
"""

import enum
import sys
import textwrap
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

# The folders of the repository have their names as packages only where they are installed, and mypy looks here.
from eagleray.broker.groups.classic import states as classic
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.quorum import states as quorum
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection, ConnectionBindings
from eagleray.broker.transactions import ending, preparing, transitions
from eagleray.broker.transactions import states as transactions
from eagleray.broker.transactions.events import CompleteTransaction, EndTransaction
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.cli import transaction_outcome
from eagleray.client.consumer import membership

DOCUMENT = Path(__file__).parents[1] / "docs" / "states.md"
WIDTH = 120

State = TypeVar("State", bound=enum.Enum)
Event = TypeVar("Event", bound=enum.Enum)

INTRODUCTION = """# States

The state machines of Eagleray keep their transitions in tables, which the code obeys and the tests walk. This page is
written from those tables by `scripts/state_diagrams.py`; a test fails where it differs from them. An arrow stands for
an entry of a table. The words on an arrow name what causes the transition; they are added by the script, except for the
last diagram, whose table has them.
"""


class Transition(NamedTuple):
    """An arrow."""

    before: str
    after: str


Labels = Mapping[tuple[str, str], str]


class Diagram(NamedTuple):
    """One state machine of the page."""

    title: str
    text: str
    first: str
    transitions: tuple[Transition, ...]
    labels: Labels


def name_of(state: enum.Enum) -> str:
    """Write a state as Kafka does: PREPARE_COMMIT is PrepareCommit."""
    return state.name.title().replace("_", "")


def from_previous(table: Mapping[State, Iterable[State]]) -> tuple[Transition, ...]:
    """Read a table that says from which states each state may be reached."""
    return in_order(table, ((before, after) for after, befores in table.items() for before in befores))


def from_next(table: Mapping[State, Iterable[State]]) -> tuple[Transition, ...]:
    """Read a table that says to which states each state may lead."""
    return in_order(table, ((before, after) for before, afters in table.items() for after in afters))


def in_order(states: Iterable[State], pairs: Iterable[tuple[State, State]]) -> tuple[Transition, ...]:
    """Put arrows into the order of the states, for a set has none."""
    places = {state: place for place, state in enumerate(states)}
    ordered = sorted(pairs, key=lambda pair: (places[pair[0]], places[pair[1]]))
    return tuple(Transition(name_of(before), name_of(after)) for before, after in ordered)


def labels_from(table: Mapping[State, Mapping[Event, State]]) -> dict[tuple[str, str], str]:
    """Read the labels from a table that says what each event does in each state."""
    labels: dict[tuple[str, str], str] = {}
    for before, row in table.items():
        for event, after in row.items():
            pair = name_of(before), name_of(after)
            labels[pair] = f"{labels[pair]}, {event.value}" if pair in labels else str(event.value)
    return labels


TRANSACTION = Diagram(
    "A transaction, in its coordinator",
    "`TransactionState` in `broker/transactions/states.py`, with Kafka's names and numbers. A state counts once its "
    "record is in `__transaction_state`. PrepareEpochFence and Dead are never written.",
    "Empty",
    from_previous(transactions.VALID_PREVIOUS),
    {
        ("Empty", "Empty"): "InitProducerId",
        ("Empty", "Ongoing"): "first partition or branch, or prepared with none",
        ("Empty", "PrepareCommit"): "commit of a tag without branches",
        ("Empty", "PrepareAbort"): "abort of nothing (version 2)",
        ("Empty", "Dead"): "expired",
        ("Ongoing", "Ongoing"): "another partition or branch, prepared, kept for a successor, or asked about",
        ("Ongoing", "PrepareCommit"): "EndTxn, CompleteTransaction or a resolver, commit",
        ("Ongoing", "PrepareAbort"): "EndTxn, CompleteTransaction or a resolver, abort",
        ("Ongoing", "PrepareEpochFence"): "timeout, or InitProducerId of a successor",
        ("PrepareEpochFence", "PrepareAbort"): "epoch raised",
        ("PrepareCommit", "CompleteCommit"): "all markers written",
        ("PrepareAbort", "CompleteAbort"): "all markers written",
        ("CompleteCommit", "Empty"): "InitProducerId",
        ("CompleteCommit", "Ongoing"): "first partition or branch, or prepared with none",
        ("CompleteCommit", "PrepareAbort"): "abort of nothing (version 2)",
        ("CompleteCommit", "Dead"): "expired",
        ("CompleteAbort", "Empty"): "InitProducerId",
        ("CompleteAbort", "Ongoing"): "first partition or branch, or prepared with none",
        ("CompleteAbort", "PrepareAbort"): "abort of nothing (version 2)",
        ("CompleteAbort", "Dead"): "expired",
    },
)

CLASSIC_GROUP = Diagram(
    "A group with the classic protocol, in its coordinator",
    "`GroupState` in `broker/groups/classic/states.py`. A group with the protocol of KIP-848 has no such table: its "
    "status (`broker/groups/consumer/state.py`) follows from the epochs of the group, of its target assignment and of "
    "its members.",
    "Empty",
    from_previous(classic.VALID_PREVIOUS),
    {
        ("Empty", "PreparingRebalance"): "a member joins",
        ("PreparingRebalance", "Empty"): "no member is left",
        ("PreparingRebalance", "CompletingRebalance"): "all members have joined",
        ("CompletingRebalance", "PreparingRebalance"): "a member joins, leaves or expires",
        ("CompletingRebalance", "Stable"): "the assignment is in the log",
        ("Stable", "PreparingRebalance"): "a member joins, leaves or expires",
        **{(name_of(state), "Dead"): "deleted, or led elsewhere" for state in classic.GroupState},
    },
)

VOTER = Diagram(
    "A voter of the metadata quorum",
    "`VoterState` in `broker/quorum/states.py`: Raft with a pre-vote, in KRaft's words. A quorum of one voter goes "
    "from Follower to Leader at once.",
    "Follower",
    from_previous(quorum.VALID_PREVIOUS),
    {
        ("Follower", "Prospective"): "no leader was heard for an election timeout",
        ("Prospective", "Candidate"): "a majority would vote for it",
        ("Prospective", "Follower"): "a leader or a newer term",
        ("Candidate", "Leader"): "elected",
        ("Candidate", "Prospective"): "not elected in time",
        ("Candidate", "Follower"): "a leader or a newer term",
        ("Leader", "Follower"): "a newer term, or no majority was heard",
    },
)

ACTIVE = ("Joining", "Reconciling", "Acknowledging", "Stable")

MEMBER = Diagram(
    "A member of a consumer group, in the client",
    "`MemberState` in `eagleray/client/consumer/membership.py`: the client's half of KIP-848, under the names that "
    "Kafka's client has.",
    "Unsubscribed",
    from_next(membership.NEXT_STATES),
    {
        ("Unsubscribed", "Joining"): "subscribe",
        ("Joining", "Stable"): "answered, nothing to change",
        ("Joining", "Reconciling"): "answered, partitions assigned",
        ("Stable", "Reconciling"): "the assignment differs",
        ("Reconciling", "Stable"): "the old assignment is back",
        ("Acknowledging", "Reconciling"): "the assignment differs again",
        ("Reconciling", "Acknowledging"): "the application has taken the change",
        ("Acknowledging", "Stable"): "answered",
        ("Fenced", "Joining"): "the application knows what it has lost",
        ("Stale", "Joining"): "the application polls again",
        ("Leaving", "Unsubscribed"): "goodbye said",
        **{(state, "Fenced"): "the group has given it up" for state in ACTIVE},
        **{(state, "Stale"): "no poll in time" for state in ACTIVE},
        **{(state, "Leaving"): "unsubscribe or close" for state in ACTIVE},
        **{(state, "Fatal"): "refused for good" for state in ACTIVE},
        **{(state, "Unsubscribed"): "unsubscribe or close" for state in ("Fenced", "Stale", "Fatal")},
    },
)

PRODUCE_COMMAND = Diagram(
    "The transaction of `eagleray produce --transactional-id`",
    "`State` and `Event` in `eagleray/cli/transaction_outcome.py`: how the command knows what to say about a "
    "transaction that is interrupted.",
    "Reading",
    from_next({before: set(row.values()) for before, row in transaction_outcome.TRANSITIONS.items()}),
    labels_from(transaction_outcome.TRANSITIONS),
)

DIAGRAMS = (TRANSACTION, CLASSIC_GROUP, VOTER, MEMBER, PRODUCE_COMMAND)

ENDINGS = """
### What EndTxn meets in each state

The tables of `broker/transactions/ending.py`: version 1, version 2, and a request of version 2 that repeats the one
before. Refused stands for an error that says that the producer is not the current one.

"""


PREPARED = """
### What ends an open transaction that is prepared, kept or resolving

Each cell is what an abort and a commit meet, from `outcome_of_end` and `outcome_of_complete` with the snapshots that
the transitions give. The writer is the producer whose records are in the transaction, and its identity is the token. A
transaction is kept for a successor that has asked InitProducerId to keep it. It is resolving once its resolver was
asked, which takes the transaction from its writer and gives it to no other producer. In the last column the token comes
from an operator, with `--unprepared`.

"""

BINDINGS = """
### By which connection an EndTxn of version 1 comes

What [ADR 28](adr/0028-a-connection-speaks-for-a-client-of-version-1.md) makes of a request that would change something,
from `ConnectionBindings`. Asked stands for CONCURRENT_TRANSACTIONS, which changes nothing. The same holds for
AddPartitionsToTxn and AddOffsetsToTxn, and at a group coordinator for TxnOffsetCommit, with
COORDINATOR_LOAD_IN_PROGRESS.

"""

WRITER: Final = ProducerIdentity(7, 5)
SUCCESSOR: Final = ProducerIdentity(7, 6)
RESOLVING: Final = "Resolving"


def render_diagram(diagram: Diagram) -> str:
    """Render one state machine."""
    unknown = diagram.labels.keys() - {tuple(each) for each in diagram.transitions}
    if unknown:
        raise ValueError(f"{diagram.title} has no transitions {sorted(unknown)}: take their labels out")
    lines = [f"    [*] --> {diagram.first}", *(_arrow(each, diagram.labels) for each in diagram.transitions)]
    block = "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))
    return f"\n## {diagram.title}\n\n{textwrap.fill(diagram.text, WIDTH)}\n\n{block}\n"


def _arrow(transition: Transition, labels: Labels) -> str:
    label = labels.get((transition.before, transition.after))
    return f"    {transition.before} --> {transition.after}" + (f": {label}" if label else "")


def render_endings() -> str:
    """Render what EndTxn means in each state."""
    tables = (ending.END_IN_VERSION_1, ending.END_IN_VERSION_2, ending.END_REPEATED)
    heads = [f"{version} {what}" for version in ("v1", "v2", "v2 repeated") for what in ("abort", "commit")]
    lines = [f"| state | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for state in ending.END_IN_VERSION_1:
        cells = [name_of(outcome) for table in tables for outcome in table[state]]
        lines.append(f"| {name_of(state)} | {' | '.join(cells)} |")
    return ENDINGS + "\n".join(lines) + "\n"


def open_transactions(client_version: int) -> dict[str, Snapshot]:
    """Return what an open transaction may be, each by the transitions that lead there."""
    created = transitions.created(WRITER.producer_id, timeout_ms=60_000, now_ms=0)
    ongoing = transitions.begun(replace(created, producer_epoch=WRITER.epoch), (), client_version, 0)
    prepared = transitions.prepared(ongoing, b"", (), 0)
    return {
        "Ongoing": ongoing,
        "Prepared": prepared,
        RESOLVING: transitions.asked_about(prepared, 0),
        "Kept": transitions.kept(ongoing, SUCCESSOR, 60_000, is_named=False, now_ms=0),
        "Kept, prepared": transitions.kept(prepared, SUCCESSOR, 60_000, is_named=False, now_ms=0),
    }


def _ends(current: Snapshot, producer: ProducerIdentity, version: int) -> str:
    """Say what an abort and a commit by EndTxn meet."""
    requests = (EndTransaction(0, "id", producer, commit, version) for commit in (False, True))
    return _both(ending.outcome_of_end(current, request) for request in requests)


def _completes(current: Snapshot, *, is_unprepared: bool) -> str:
    """Say what an abort and a commit by the token meet."""
    requests = (CompleteTransaction(0, "id", WRITER, commit, is_unprepared) for commit in (False, True))
    return _both(preparing.outcome_of_complete(current, request) for request in requests)


def _both(outcomes: Iterable[enum.Enum]) -> str:
    return " / ".join(dict.fromkeys(map(name_of, outcomes)))


def render_prepared() -> str:
    """Render what ends a transaction that is open and takes nothing more."""
    heads = ["v1, writer", "v2, writer", "v2, successor", "token", "token, unprepared"]
    lines = [f"| transaction | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for (name, by_version_1), current in zip(open_transactions(1).items(), open_transactions(2).values(), strict=True):
        cells = [
            _ends(by_version_1, WRITER, 1),
            _ends(current, WRITER, 2),
            "-" if name == RESOLVING else _ends(current, SUCCESSOR, 2),
            _completes(current, is_unprepared=False),
            _completes(current, is_unprepared=True),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return PREPARED + "\n".join(lines) + "\n"


def _asked_twice(bound: int | None, *, has_heard: bool) -> list[str]:
    """Say what connection 1 meets, and meets again, behind the answer or not, where an id is bound to this one."""
    bindings, wanted = ConnectionBindings[str](count(1)), frozenset({True})
    if bound is not None:
        bindings.bind("id", bound)
    question = bindings.question_to("id", ClientConnection(1), wanted)
    again = bindings.question_to("id", ClientConnection(1, question if has_heard else NO_QUESTION), wanted)
    return ["Carried out" if each == NO_QUESTION else "Asked" for each in (question, again)]


def render_bindings() -> str:
    """Render which connection speaks for a client of version 1."""
    lines = [
        "| the id is bound to | first | repeated behind the answer | a copy, read before the answer |",
        "|---|---|---|---|",
    ]
    for name, bound in {"this connection": 1, "another connection": 2, "none, as after a failover": None}.items():
        first, repeated = _asked_twice(bound, has_heard=True)
        lines.append(f"| {name} | {first} | {repeated} | {_asked_twice(bound, has_heard=False)[1]} |")
    return BINDINGS + "\n".join(lines) + "\n"


def render() -> str:
    """Render the whole document."""
    first, *others = map(render_diagram, DIAGRAMS)
    return "".join((INTRODUCTION, first, render_endings(), render_prepared(), render_bindings(), *others))


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
