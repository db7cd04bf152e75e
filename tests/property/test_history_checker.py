"""A history that exactly-once allows passes the checker; with one thing changed, whatever it is, it does not."""

from collections import Counter

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.property.history_strategies import histories
from tests.support.history import GroupOffset, History, Outcome, encode_payload
from tests.support.history_checker import check


def places(records):
    return [(partition, number) for partition, found in records.items() for number in range(len(found))]


def with_partition(records, partition, found):
    return {**records, partition: tuple(found)}


def in_both(history, partition, change):
    """Change what both readers find in a partition."""
    return msgspec.structs.replace(
        history,
        committed=with_partition(history.committed, partition, change(list(history.committed[partition]))),
        uncommitted=with_partition(history.uncommitted, partition, change(list(history.uncommitted[partition]))),
    )


def pick_visible(draw, history):
    return draw(st.sampled_from(places(history.committed) or [None]).filter(bool))


def drop_a_record(draw, history):
    """A transaction of unknown outcome with one record is whole without it, so another has to be chosen."""
    outcomes = {each.name: each.outcome for each in history.transactions}
    visible = [found.payload().transaction for records in history.committed.values() for found in records]
    sizes = Counter(visible)
    partition, number = pick_visible(draw, history)
    dropped = history.committed[partition][number]
    name = dropped.payload().transaction
    assume(outcomes[name] is Outcome.COMMITTED or sizes[name] > 1)
    return in_both(history, partition, lambda found: [each for each in found if each != dropped])


def hide_from_the_reader_of_everything(draw, history):
    partition, number = pick_visible(draw, history)
    hidden = history.committed[partition][number]
    found = [each for each in history.uncommitted[partition] if each != hidden]
    return msgspec.structs.replace(history, uncommitted=with_partition(history.uncommitted, partition, found))


def lose_a_transaction(draw, history):
    committed = [each.name for each in history.transactions if each.outcome is Outcome.COMMITTED]
    name = draw(st.sampled_from(committed or [None]).filter(bool))
    for partition in history.committed:
        history = in_both(
            history, partition, lambda found: [each for each in found if each.payload().transaction != name]
        )
    return history


def repeat_a_record(draw, history):
    partition, number = draw(st.sampled_from(places(history.uncommitted)))
    record = history.uncommitted[partition][number]
    is_visible = record in history.committed[partition]
    offset = history.uncommitted[partition][-1].offset + draw(st.integers(1, 2))
    again = msgspec.structs.replace(record, offset=offset)
    everything = with_partition(history.uncommitted, partition, (*history.uncommitted[partition], again))
    committed = history.committed
    if is_visible:
        committed = with_partition(committed, partition, (*committed[partition], again))
    return msgspec.structs.replace(history, committed=committed, uncommitted=everything)


def show_an_aborted_record(draw, history):
    aborted = {each.name for each in history.transactions if each.outcome is Outcome.ABORTED}
    hidden = [
        (partition, found)
        for partition, records in history.uncommitted.items()
        for found in records
        if found.payload().transaction in aborted
    ]
    partition, record = draw(st.sampled_from(hidden or [None]).filter(bool))
    shown = sorted((*history.committed[partition], record), key=lambda found: found.offset)
    return msgspec.structs.replace(history, committed=with_partition(history.committed, partition, shown))


def move_a_group(draw, history):
    group = draw(st.sampled_from(history.group_offsets or [None]).filter(bool))
    moved = draw(st.integers(0, 100).filter(lambda offset: offset != group.offset))
    others = tuple(each for each in history.group_offsets if each != group)
    here = GroupOffset(group.group, group.partition, moved)
    return msgspec.structs.replace(history, group_offsets=(*others, here))


def forget_a_group(draw, history):
    group = draw(st.sampled_from(history.group_offsets or [None]).filter(bool))
    others = tuple(each for each in history.group_offsets if each != group)
    return msgspec.structs.replace(history, group_offsets=others)


def reorder(draw, history):
    """Let two records of one producer change places, but not their offsets."""
    partition, first = pick_visible(draw, history)
    found = history.committed[partition]
    producer = found[first].payload().transaction.producer
    same = [each for each in found if each.payload().transaction.producer == producer]
    other = draw(st.sampled_from(same))
    assume(other != found[first])
    values = {found[first].offset: other.value, other.offset: found[first].value}
    return in_both(
        history,
        partition,
        lambda records: [msgspec.structs.replace(each, value=values.get(each.offset, each.value)) for each in records],
    )


def turn_offsets_round(draw, history):
    partition, _ = pick_visible(draw, history)
    assume(len(history.committed[partition]) > 1)
    committed = with_partition(history.committed, partition, history.committed[partition][::-1])
    return msgspec.structs.replace(history, committed=committed)


def alter_a_value(draw, history):
    partition, number = pick_visible(draw, history)
    record = history.committed[partition][number]
    payload = record.payload()
    altered = encode_payload(msgspec.structs.replace(payload, body=payload.body + "!"))
    return in_both(
        history,
        partition,
        lambda records: [msgspec.structs.replace(each, value=altered) if each == record else each for each in records],
    )


MUTATIONS = [
    drop_a_record,
    hide_from_the_reader_of_everything,
    lose_a_transaction,
    repeat_a_record,
    show_an_aborted_record,
    move_a_group,
    forget_a_group,
    reorder,
    turn_offsets_round,
    alter_a_value,
]


@given(histories())
def test_a_correct_history_passes(history):
    assert check(history) == ()


@pytest.mark.parametrize("mutate", MUTATIONS)
@given(histories(), st.data())
def test_a_history_with_one_thing_changed_fails(mutate, history, data):
    mutated = mutate(data.draw, history)
    assert isinstance(mutated, History)
    violations = check(mutated)
    assert violations
    assert all(each.text for each in violations)
