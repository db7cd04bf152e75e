"""Every state, request, identity and version, with the log committed and with an append on its way: what comes of it.

The tables below are a second account of the rules, written from Kafka's behaviour and not from the code. The
transactional id always belongs to producer 7 in epoch 5, which was in epoch 4 before, if its state allows to say so.
In a cell stands

- the name of an error code: the request is answered with it, at once where all of the partition is committed;
- `wait`: the request is held;
- the name of a state: that is logged, and the answer waits for the log. `+1` says that the epoch is raised.

While something else of the same partition is on its way to the log, the same comes of every request, and nothing of it
is said before that is committed.
"""

from itertools import product

import pytest

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
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

# For a verification the code is that of its one partition.
VERIFY = """
    who     state            known_partition            new_partition
    same    EMPTY            TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE
    same    ONGOING          NONE                       TRANSACTION_ABORTABLE
    same    PREPARE_COMMIT   wait                       wait
    same    PREPARE_ABORT    wait                       wait
    same    COMPLETE_COMMIT  TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE
    same    COMPLETE_ABORT   TRANSACTION_ABORTABLE TRANSACTION_ABORTABLE
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
    """A coordinator that has loaded one transactional id, and perhaps has another one on its way to the log."""
    last_epoch = NO_EPOCH if state == "ONGOING" else 4
    loaded = snapshot(TransactionState[state], last_producer_epoch=last_epoch, client_version=version)
    driver = CoordinatorDriver(
        CoordinatorConfig(transaction_state_log_num_partitions=1), loaded={TRANSACTIONAL_ID: loaded}
    )
    if is_pending:
        driver.init("another")
        assert len(driver.appends) == 1
    return driver


def what_happens(driver: CoordinatorDriver, request_id: int) -> str:
    """Say in the words of the tables what a request has come to."""
    reply = driver.replies.get(request_id)
    if reply is not None:
        assert not driver.appends
        return (reply.partition_errors[0] if reply.partition_errors else reply.error_code).name
    if not driver.appends:
        return "wait"
    [append] = driver.appends
    [(_, logged)] = append.records
    assert logged is not None
    assert logged.producer_epoch in (5, 6)
    return logged.state.name + ("+1" if logged.producer_epoch > 5 else "")


def check(state: str, request, expected: str) -> None:
    """See what a request comes to, after each version, with the log committed and with something on its way."""
    for last_version, is_pending in product((1, 2), (False, True)):
        driver = driver_in(state, last_version, is_pending=is_pending)
        markers = len(driver.markers)
        request_id = request(driver)
        if is_pending:
            assert request_id not in driver.replies, "it is said before that on which it may rest is committed"
            driver.append()
        assert len(driver.markers) == markers, "no request has markers sent before its decision is committed"
        assert what_happens(driver, request_id) == expected, f"{last_version=} {is_pending=}"


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
            cell(END, result, version=str(version), who=who, state=state),
        )


@IN_STATE
@BY_WHOM
@pytest.mark.parametrize("version", [1, 2])
def test_add(version: int, who: str, state: str):
    for column, partition in PARTITIONS.items():
        check(
            state,
            lambda driver, partition=partition: driver.add(WHO[who], partition, version=version),
            cell(ADD, column, who=who, state=state),
        )


@IN_STATE
@BY_WHOM
def test_verify(who: str, state: str):
    for column, partition in PARTITIONS.items():
        check(
            state,
            lambda driver, partition=partition: driver.add(WHO[who], partition, verify_only=True),
            cell(VERIFY, column, who=who, state=state),
        )


@IN_STATE
@pytest.mark.parametrize("who", ["unnamed", *WHO])
def test_init(who: str, state: str):
    check(state, lambda driver: driver.init(expected=WHO.get(who)), cell(INIT, state, who=who))


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
