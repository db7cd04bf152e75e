"""What is packed by hand is what the codec writes, and everything comes back."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions import log_records
from eagleray.broker.transactions.branches.branching import Branch, Branching
from eagleray.broker.transactions.log_records import NEVER_LOGGED, decode_value, encode_key, encode_value, replay
from eagleray.broker.transactions.origin import ORIGIN_BYTES
from eagleray.broker.transactions.preparation import Outcome, Preparation
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.codec import decode_versioned, encode_versioned
from eagleray.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PARTITIONS = st.frozensets(st.builds(TopicPartition, TEXT, INT32), max_size=6)
STATES = st.sampled_from([state for state in TransactionState if state not in NEVER_LOGGED])
TAGS = st.none() | TEXT
BRANCHINGS = st.builds(
    Branching,
    tag=TAGS,
    committed_tag=TAGS,
    branches=st.dictionaries(st.integers(0, 2**63 - 1), st.builds(Branch, PARTITIONS, st.booleans()), max_size=5),
)
RESOLVERS = st.builds(ResolverName, st.sampled_from(ResolverKind), TEXT, TEXT, TEXT, INT64, INT64, INT64, st.booleans())
PREPARATIONS = st.builds(
    Preparation,
    prepared_ms=INT64,
    context=st.binary(max_size=80),
    branches=st.lists(st.integers(0, 2**63 - 1), max_size=5).map(tuple),
    next_timeout_ms=st.none() | INT32,
    outcome=st.none() | st.builds(Outcome, INT64, INT16, st.booleans()),
    resolver=st.none() | RESOLVERS,
    questions=INT64,
    asked_ms=INT64,
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    state = draw(STATES)
    return Snapshot(
        state=state,
        producer_id=draw(INT64),
        producer_epoch=draw(INT16),
        last_producer_epoch=draw(st.just(-1) | INT16),
        previous_producer_id=draw(st.just(-1) | INT64),
        next_producer_id=draw(st.just(-1) | INT64),
        next_producer_epoch=draw(st.just(-1) | INT16),
        timeout_ms=draw(INT32),
        partitions=frozenset() if state is TransactionState.EMPTY else draw(PARTITIONS),
        start_ms=draw(INT64),
        updated_ms=draw(INT64),
        client_version=draw(st.integers(0, 2) | INT16),
        branching=draw(st.none() | BRANCHINGS),
        preparation=draw(st.none() | PREPARATIONS),
        origin=draw(st.just(b"") | st.binary(max_size=ORIGIN_BYTES + 2)),
        owner=draw(st.none() | st.builds(ProducerIdentity, INT64, INT16)),
    )


@given(snapshots())
def test_both_ways_of_writing_are_one(snapshot: Snapshot):
    assert encode_value(snapshot) == encode_versioned(log_records._to_message(snapshot))


@given(snapshots())
def test_everything_comes_back(snapshot: Snapshot):
    assert decode_value(encode_value(snapshot)) == snapshot
    assert (
        log_records._from_message(decode_versioned(log_records.LoggedTransaction, encode_value(snapshot))) == snapshot
    )


@given(snapshots())
def test_kafka_reads_it_and_skips_our_fields(snapshot: Snapshot):
    read = decode_versioned(TransactionLogValue, encode_value(snapshot))

    without_ours = replace(snapshot, branching=None, origin=b"", owner=None)
    assert read == decode_versioned(TransactionLogValue, encode_value(without_ours))
    assert read.producer_id == snapshot.producer_id
    assert read.transaction_status == snapshot.state


@given(TEXT)
def test_keys(transactional_id: str):
    assert encode_key(transactional_id) == encode_versioned(TransactionLogKey(transactional_id=transactional_id))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | snapshots()), max_size=20))
def test_a_replay_is_a_dictionary(history: list[tuple[str, Snapshot | None]]):
    expected: dict[str, Snapshot] = {}
    for name, snapshot in history:
        expected.pop(name, None)
        if snapshot is not None:
            expected[name] = snapshot

    records = [(encode_key(name), None if value is None else encode_value(value)) for name, value in history]

    assert replay(records) == expected
