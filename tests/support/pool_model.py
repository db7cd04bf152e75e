"""What the transaction log must never show of the slots of pools, told by the records alone."""

from __future__ import annotations

from collections.abc import Mapping

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.events import PoolReply
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from tests.support.prepared_model import holder_of, prepared_ms_of

_State = TransactionState


def pool_of(name: str) -> str | None:
    """The pool of a slot; None for any other transactional id."""
    pool, mark, number = name.rpartition(".__slot-")
    return pool if mark and number.isdecimal() else None


def is_lost(name: str, slot: Snapshot, log: Mapping[str, Snapshot]) -> bool:
    """Whether another than its owner has the pool of a slot, by what the log has."""
    pool = pool_of(name)
    head = None if pool is None else log.get(pool)
    return pool is not None and (head is None or slot.owner is None or holder_of(head) != slot.owner)


def lost_slots(pool: str, log: Mapping[str, Snapshot]) -> dict[str, Snapshot]:
    """The slots of a pool that its present owner does not have."""
    return {name: slot for name, slot in log.items() if pool_of(name) == pool and is_lost(name, slot, log)}


def check_slot(name: str, before: Snapshot | None, after: Snapshot | None, log: Mapping[str, Snapshot]) -> None:
    """See a record, with the log before it: nothing goes on in a slot that is lost, but for its end."""
    if after is None or pool_of(name) is None or not is_lost(name, after, log):
        return
    if after.state is _State.EMPTY:
        assert after.owner is None, "a slot is given to a producer whose owner does not have the pool"
    elif after.state is _State.ONGOING:
        assert before is not None
        assert before.state is _State.ONGOING, "a transaction begins in a slot that is lost"
        assert after.partitions == before.partitions, "a partition joins in a slot that is lost"
        assert prepared_ms_of(after) == prepared_ms_of(before), "a transaction is prepared in a slot that is lost"
    elif after.state is _State.PREPARE_COMMIT:
        assert prepared_ms_of(before) >= 0, "what was not prepared is committed in a slot that is lost"


def check_taken_over(pool: str, reply: PoolReply, log: Mapping[str, Snapshot]) -> None:
    """See the answer of a takeover, with the log on which it rests."""
    assert holder_of(log[pool]) == reply.producer, "another has the pool"
    lost = lost_slots(pool, log)
    for name, slot in lost.items():
        assert slot.state is not _State.ONGOING or prepared_ms_of(slot) >= 0, f"{name} is still open"
    prepared = {
        name: ProducerIdentity(slot.producer_id, slot.producer_epoch)
        for name, slot in lost.items()
        if prepared_ms_of(slot) >= 0
    }
    assert {each.transactional_id: each.producer for each in reply.left} == prepared, "what is left is not told truly"
