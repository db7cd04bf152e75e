"""Every state, request, identity and version, with a transition pending and without: what happens at once.

The tables below are a second account of the rules, written from Kafka's behaviour and not from the code. The
transactional id always belongs to producer 7 in epoch 5, which was in epoch 4 before, if its state allows to say so.
In a cell stands

- the name of an error code: the request is answered with it at once;
- `wait`: the request is held;
- the name of a state: that is logged, and the answer waits for the log. `+1` says that the epoch is raised.
"""

from itertools import product

import pytest

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions.states import TransactionState
from tests.support.coordinators import ORDERS_0, ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

WHO = {
    "same": ProducerIdentity(7, 5),
    "last": ProducerIdentity(7, 4),
    "older": ProducerIdentity(7, 3),
    "newer": ProducerIdentity(7, 6),
    "other": ProducerIdentity(8, 5),
    "nobody": ProducerIdentity(-1, -1),
}
PARTITIONS = {"known_partition": ORDERS_0, "new_partition": ORDERS_1}
STATES = ["EMPTY", "ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "COMPLETE_COMMIT", "COMPLETE_ABORT"]

END = """
    version who     state            abort               commit
    1       same    EMPTY            INVALID_TXN_STATE   INVALID_TXN_STATE
    1       same    ONGOING          PREPARE_ABORT       PREPARE_COMMIT
    1       same    PREPARE_COMMIT   INVALID_TXN_STATE   wait
    1       same    PREPARE_ABORT    wait                INVALID_TXN_STATE
    1       same    COMPLETE_COMMIT  INVALID_TXN_STATE   NONE
    1       same    COMPLETE_ABORT   NONE                INVALID_TXN_STATE
    1       last    *                PRODUCER_FENCED     PRODUCER_FENCED
    1       older   *                PRODUCER_FENCED     PRODUCER_FENCED
    1       newer   *                PRODUCER_FENCED     PRODUCER_FENCED
    2       same    EMPTY            PREPARE_ABORT+1     INVALID_TXN_STATE
    2       same    ONGOING          PREPARE_ABORT+1     PREPARE_COMMIT+1
    2       same    PREPARE_COMMIT   wait                wait
    2       same    PREPARE_ABORT    wait                wait
    2       same    COMPLETE_COMMIT  PREPARE_ABORT+1     INVALID_TXN_STATE
    2       same    COMPLETE_ABORT   PREPARE_ABORT+1     INVALID_TXN_STATE
    2       last    EMPTY            PRODUCER_FENCED     PRODUCER_FENCED
    2       last    ONGOING          PRODUCER_FENCED     PRODUCER_FENCED
    2       last    PREPARE_COMMIT   INVALID_TXN_STATE   wait
    2       last    PREPARE_ABORT    wait                PRODUCER_FENCED
    2       last    COMPLETE_COMMIT  INVALID_TXN_STATE   NONE
    2       last    COMPLETE_ABORT   NONE                PRODUCER_FENCED
    2       older   *                PRODUCER_FENCED     PRODUCER_FENCED
    2       newer   *                PRODUCER_FENCED     PRODUCER_FENCED
    *       other   *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
    *       nobody  *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
"""

ADD = """
    who     state            known_partition       new_partition
    same    EMPTY            ONGOING               ONGOING
    same    ONGOING          NONE                  ONGOING
    same    PREPARE_COMMIT   wait                  wait
    same    PREPARE_ABORT    wait                  wait
    same    COMPLETE_COMMIT  ONGOING               ONGOING
    same    COMPLETE_ABORT   ONGOING               ONGOING
    last    *                PRODUCER_FENCED       PRODUCER_FENCED
    older   *                PRODUCER_FENCED       PRODUCER_FENCED
    newer   *                PRODUCER_FENCED       PRODUCER_FENCED
    other   *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
    nobody  *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
"""

# For a verification the code is that of its one partition. Behind the stroke: with a transition pending.
VERIFY = """
    who     state            known_partition            new_partition
    same    EMPTY            TRANSACTION_ABORTABLE|wait TRANSACTION_ABORTABLE|wait
    same    ONGOING          NONE                       TRANSACTION_ABORTABLE|wait
    same    PREPARE_COMMIT   wait                       wait
    same    PREPARE_ABORT    wait                       wait
    same    COMPLETE_COMMIT  TRANSACTION_ABORTABLE|wait TRANSACTION_ABORTABLE|wait
    same    COMPLETE_ABORT   TRANSACTION_ABORTABLE|wait TRANSACTION_ABORTABLE|wait
    last    *                PRODUCER_FENCED            PRODUCER_FENCED
    older   *                PRODUCER_FENCED            PRODUCER_FENCED
    newer   *                PRODUCER_FENCED            PRODUCER_FENCED
    other   *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
    nobody  *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
"""

# `unnamed` is a producer that does not say who it believes to be.
INIT = """
    who     EMPTY            ONGOING          PREPARE_COMMIT PREPARE_ABORT  COMPLETE_COMMIT  COMPLETE_ABORT
    unnamed EMPTY+1          PREPARE_ABORT+1  wait           wait           EMPTY+1          EMPTY+1
    same    EMPTY+1          PREPARE_ABORT+1  wait           wait           EMPTY+1          EMPTY+1
    last    EMPTY            PRODUCER_FENCED  wait           wait           EMPTY            EMPTY
    older   PRODUCER_FENCED  PRODUCER_FENCED  wait           wait           PRODUCER_FENCED  PRODUCER_FENCED
    newer   PRODUCER_FENCED  PRODUCER_FENCED  wait           wait           PRODUCER_FENCED  PRODUCER_FENCED
    other   PRODUCER_FENCED  PRODUCER_FENCED  wait           wait           PRODUCER_FENCED  PRODUCER_FENCED
    nobody  PRODUCER_FENCED  PRODUCER_FENCED  wait           wait           PRODUCER_FENCED  PRODUCER_FENCED
"""


def rows_of(table: str) -> list[dict[str, str]]:
    header, *lines = (line.split() for line in table.strip().splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


def cell(table: str, column: str, **coordinates: str) -> str:
    [row] = [row for row in rows_of(table) if all(row[name] in (value, "*") for name, value in coordinates.items())]
    return row[column]


def driver_in(state: str, version: int, *, is_pending: bool) -> CoordinatorDriver:
    """A coordinator that has loaded one transactional id, and perhaps has a transition of it on its way to the log."""
    last_epoch = NO_EPOCH if state == "ONGOING" else 4
    loaded = snapshot(TransactionState[state], last_producer_epoch=last_epoch, client_version=version)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: loaded})
    if is_pending:
        if state.startswith("PREPARE"):
            driver.write_markers()
        elif state == "ONGOING":
            driver.end(WHO["same"], version=version)
        else:
            driver.init()
        assert len(driver.appends) == 1
        driver.appends.clear()
    return driver


def what_happens(driver: CoordinatorDriver, request_id: int, effects_before: int) -> str:
    """Say in the words of the tables what a request has come to."""
    reply = driver.replies.get(request_id)
    assert len(driver.markers) == effects_before, "no request has markers sent by itself"
    if reply is not None:
        assert not driver.appends
        return (reply.partition_errors[0] if reply.partition_errors else reply.error_code).name
    if not driver.appends:
        return "wait"
    [append] = driver.appends
    current, logged = driver.current(), append.snapshot
    assert logged is not None
    assert logged.producer_epoch - current.producer_epoch in (0, 1)
    return logged.state.name + ("+1" if logged.producer_epoch > current.producer_epoch else "")


def check(state: str, request, *, quiet: str, pending: str = "wait") -> None:
    """See what a request comes to, after each version, with a transition pending and without."""
    for last_version, is_pending in product((1, 2), (False, True)):
        driver = driver_in(state, last_version, is_pending=is_pending)
        before = len(driver.markers)
        happened = what_happens(driver, request(driver), before)
        assert happened == (pending if is_pending else quiet), f"{last_version=} {is_pending=}"


IN_STATE = pytest.mark.parametrize("state", STATES)
BY_WHOM = pytest.mark.parametrize("who", WHO)


@IN_STATE
@BY_WHOM
@pytest.mark.parametrize("version", [1, 2])
def test_end(version: int, who: str, state: str):
    for result in ("abort", "commit"):
        check(
            state,
            lambda driver, commit=result == "commit": driver.end(WHO[who], commit=commit, version=version),
            quiet=cell(END, result, version=str(version), who=who, state=state),
        )


@IN_STATE
@BY_WHOM
@pytest.mark.parametrize("version", [1, 2])
def test_add(version: int, who: str, state: str):
    for column, partition in PARTITIONS.items():
        check(
            state,
            lambda driver, partition=partition: driver.add(WHO[who], partition, version=version),
            quiet=cell(ADD, column, who=who, state=state),
        )


@IN_STATE
@BY_WHOM
def test_verify(who: str, state: str):
    for column, partition in PARTITIONS.items():
        outcomes = cell(VERIFY, column, who=who, state=state).split("|")
        check(
            state,
            lambda driver, partition=partition: driver.add(WHO[who], partition, verify_only=True),
            quiet=outcomes[0],
            pending=outcomes[-1],
        )


@IN_STATE
@pytest.mark.parametrize("who", ["unnamed", *WHO])
def test_init(who: str, state: str):
    check(state, lambda driver: driver.init(expected=WHO.get(who)), quiet=cell(INIT, state, who=who))


@pytest.mark.parametrize("who", ["unnamed", *WHO])
def test_init_of_an_unknown_id_creates_it_for_anybody(who: str):
    driver = CoordinatorDriver()

    request_id = driver.init(expected=WHO.get(who))
    driver.settle()

    assert driver.reply_to(request_id).producer == ProducerIdentity(100, 0)


@pytest.mark.parametrize("who", WHO)
def test_an_unknown_id_has_no_transaction(who: str):
    driver = CoordinatorDriver()

    assert driver.error_of(driver.add(WHO[who])).name == "INVALID_PRODUCER_ID_MAPPING"
    assert driver.error_of(driver.add(WHO[who], verify_only=True)).name == "INVALID_PRODUCER_ID_MAPPING"
    assert driver.error_of(driver.end(WHO[who])).name == "INVALID_PRODUCER_ID_MAPPING"
