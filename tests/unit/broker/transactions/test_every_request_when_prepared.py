"""Every request that meets a prepared or kept transaction, and those about preparations in every state.

The tables are a second account of the rules, as in `test_every_request_in_every_state`, whose words they use. The
records are always those of producer 7 in epoch 5. Where its transaction is kept, the keeper is producer 7 in epoch 6.
RESOLVABLE is prepared with a resolver, and ASKED what that was asked about: the identity that fences its producer is
again that of producer 7 in epoch 6, but no producer is given it. A number behind a state says by how much the epoch of
the records is raised.
"""

from itertools import product

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.preparation import Outcome, Preparation
from eagleray.broker.transactions.resolver_events import ResolverAnswered
from eagleray.broker.transactions.states import TransactionState
from tests.support.coordinators import ORDERS_0, ORDERS_1, RESOLVER, TRANSACTIONAL_ID, CoordinatorDriver, snapshot
from tests.unit.broker.transactions.test_every_request_in_every_state import WHO, cell

OPEN = ["PREPARED", "KEPT", "KEPT_PREPARED", "RESOLVABLE", "ASKED"]
STATES = [
    "EMPTY",
    "ONGOING",
    *OPEN,
    "PREPARE_COMMIT",
    "PREPARE_ABORT",
    "COMPLETE_COMMIT",
    "COMPLETE_ABORT",
]
REMEMBERED = ProducerIdentity(7, 1)
"""The token of an earlier transaction, which was committed."""

KEPT = {"next_producer_id": 7, "next_producer_epoch": 6}

END = """
    version who     state            abort               commit
    1       same    PREPARED         INVALID_TXN_STATE   INVALID_TXN_STATE
    1       same    KEPT             PRODUCER_FENCED     PRODUCER_FENCED
    1       same    KEPT_PREPARED    PRODUCER_FENCED     PRODUCER_FENCED
    1       newer   PREPARED         PRODUCER_FENCED     PRODUCER_FENCED
    1       newer   KEPT             PREPARE_ABORT+1     PREPARE_COMMIT+1
    1       newer   KEPT_PREPARED    INVALID_TXN_STATE   INVALID_TXN_STATE
    1       same    RESOLVABLE       INVALID_TXN_STATE   INVALID_TXN_STATE
    1       same    ASKED            PRODUCER_FENCED     PRODUCER_FENCED
    1       newer   RESOLVABLE       PRODUCER_FENCED     PRODUCER_FENCED
    1       newer   ASKED            INVALID_TXN_STATE   INVALID_TXN_STATE
    2       same    RESOLVABLE       PREPARE_ABORT+1     PREPARE_COMMIT+1
    2       same    ASKED            PRODUCER_FENCED     PRODUCER_FENCED
    2       newer   RESOLVABLE       PRODUCER_FENCED     PRODUCER_FENCED
    2       newer   ASKED            PREPARE_ABORT+2     PREPARE_COMMIT+2
    2       same    PREPARED         PREPARE_ABORT+1     PREPARE_COMMIT+1
    2       same    KEPT             PRODUCER_FENCED     PRODUCER_FENCED
    2       same    KEPT_PREPARED    PRODUCER_FENCED     PRODUCER_FENCED
    2       newer   PREPARED         PRODUCER_FENCED     PRODUCER_FENCED
    2       newer   KEPT             PREPARE_ABORT+2     PREPARE_COMMIT+2
    2       newer   KEPT_PREPARED    PREPARE_ABORT+2     PREPARE_COMMIT+2
    *       last    *                PRODUCER_FENCED     PRODUCER_FENCED
    *       older   *                PRODUCER_FENCED     PRODUCER_FENCED
    *       other   *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
    *       nobody  *                INVALID_PRODUCER_ID_MAPPING INVALID_PRODUCER_ID_MAPPING
"""

# Of every partition, in the transaction or not, whether it is to be added or only verified.
ADD = """
    who     state            outcome
    same    PREPARED         INVALID_TXN_STATE
    same    RESOLVABLE       INVALID_TXN_STATE
    newer   KEPT             INVALID_TXN_STATE
    newer   KEPT_PREPARED    INVALID_TXN_STATE
    newer   ASKED            INVALID_TXN_STATE
    same    KEPT             PRODUCER_FENCED
    same    KEPT_PREPARED    PRODUCER_FENCED
    same    ASKED            PRODUCER_FENCED
    newer   PREPARED         PRODUCER_FENCED
    newer   RESOLVABLE       PRODUCER_FENCED
    last    *                PRODUCER_FENCED
    older   *                PRODUCER_FENCED
    other   *                INVALID_PRODUCER_ID_MAPPING
    nobody  *                INVALID_PRODUCER_ID_MAPPING
"""

INIT = """
     who      PREPARED         KEPT             KEPT_PREPARED    RESOLVABLE       ASKED
    unnamed  PREPARE_ABORT+1  PREPARE_ABORT+2  PREPARE_ABORT+2  wait             wait
    same     PREPARE_ABORT+1  PRODUCER_FENCED  PRODUCER_FENCED  wait             PRODUCER_FENCED
    last     PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED
    older    PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED
    newer    PRODUCER_FENCED  PREPARE_ABORT+2  PREPARE_ABORT+2  PRODUCER_FENCED  wait
    other    PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED
    nobody   PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED  PRODUCER_FENCED
"""

# Where something is open, its records stay those of their producer, and the keeper's epoch is raised by one.
KEEP = """
    state            unnamed  same            newer
    EMPTY            EMPTY+1  EMPTY+1         PRODUCER_FENCED
    ONGOING          ONGOING  ONGOING         PRODUCER_FENCED
    PREPARED         ONGOING  ONGOING         PRODUCER_FENCED
    KEPT             ONGOING  PRODUCER_FENCED ONGOING
    KEPT_PREPARED    ONGOING  PRODUCER_FENCED ONGOING
    PREPARE_COMMIT   wait     wait            wait
    PREPARE_ABORT    wait     wait            wait
    COMPLETE_COMMIT  EMPTY+1  EMPTY+1         PRODUCER_FENCED
    COMPLETE_ABORT   EMPTY+1  EMPTY+1         PRODUCER_FENCED
    RESOLVABLE       ONGOING  ONGOING         PRODUCER_FENCED
    ASKED            ONGOING  PRODUCER_FENCED ONGOING
"""

# After a transaction of version 2; `otherwise` is with another context than that which is prepared.
PREPARE = """
    state            same            otherwise          newer
    EMPTY            ONGOING         ONGOING            PRODUCER_FENCED
    ONGOING          ONGOING         ONGOING            PRODUCER_FENCED
    PREPARED         NONE            INVALID_TXN_STATE  PRODUCER_FENCED
    KEPT             PRODUCER_FENCED PRODUCER_FENCED    INVALID_TXN_STATE
    KEPT_PREPARED    PRODUCER_FENCED PRODUCER_FENCED    INVALID_TXN_STATE
    PREPARE_COMMIT   wait            wait               PRODUCER_FENCED
    PREPARE_ABORT    wait            wait               PRODUCER_FENCED
    COMPLETE_COMMIT  ONGOING         ONGOING            PRODUCER_FENCED
    COMPLETE_ABORT   ONGOING         ONGOING            PRODUCER_FENCED
    RESOLVABLE       INVALID_TXN_STATE  INVALID_TXN_STATE  PRODUCER_FENCED
    ASKED            PRODUCER_FENCED    PRODUCER_FENCED    INVALID_TXN_STATE
"""

# By the token of the records that are open, or would be: prepared or not, to commit and to abort.
COMPLETE = """
    state            commit             abort              unprepared_commit  unprepared_abort
    EMPTY            INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE
    ONGOING          INVALID_TXN_STATE  INVALID_TXN_STATE  PREPARE_COMMIT+1   PREPARE_ABORT+1
    PREPARED         PREPARE_COMMIT+1   PREPARE_ABORT+1    PREPARE_COMMIT+1   PREPARE_ABORT+1
    KEPT             INVALID_TXN_STATE  INVALID_TXN_STATE  PREPARE_COMMIT+2   PREPARE_ABORT+2
    KEPT_PREPARED    PREPARE_COMMIT+2   PREPARE_ABORT+2    PREPARE_COMMIT+2   PREPARE_ABORT+2
    PREPARE_COMMIT   INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE
    PREPARE_ABORT    INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE
    COMPLETE_COMMIT  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE
    COMPLETE_ABORT   INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE  INVALID_TXN_STATE
    RESOLVABLE       PREPARE_COMMIT+1   PREPARE_ABORT+1    PREPARE_COMMIT+1   PREPARE_ABORT+1
    ASKED            PREPARE_COMMIT+2   PREPARE_ABORT+2    PREPARE_COMMIT+2   PREPARE_ABORT+2
"""


def driver_in(state: str, *, is_pending: bool) -> CoordinatorDriver:
    """A coordinator that has loaded one transactional id, and perhaps has another one on its way to the log."""
    is_open = state in OPEN
    has_resolver = state in ("RESOLVABLE", "ASKED")
    prepared_ms = 1 if state.endswith("PREPARED") or has_resolver else -1
    asked = {"questions": 1, "asked_ms": 2} if state == "ASKED" else {}
    loaded = snapshot(
        TransactionState.ONGOING if is_open else TransactionState[state],
        client_version=2,
        preparation=Preparation(
            prepared_ms,
            b"42",
            outcome=Outcome(REMEMBERED.producer_id, REMEMBERED.epoch, True),
            resolver=RESOLVER if has_resolver else None,
            **asked,
        ),
        **(KEPT if state.startswith("KEPT") or asked else {}),
    )
    driver = CoordinatorDriver(
        CoordinatorConfig(transaction_state_log_num_partitions=1), loaded={TRANSACTIONAL_ID: loaded}
    )
    if is_pending:
        driver.init("another")
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
    assert logged.outcome_of(REMEMBERED) is not None or logged.outcome_of(ProducerIdentity(7, 5)) is not None
    raised = logged.producer_epoch - 5
    return logged.state.name + (f"+{raised}" if raised else "")


def check(state: str, request, expected: str) -> None:
    for is_pending in (False, True):
        driver = driver_in(state, is_pending=is_pending)
        request_id = request(driver)
        if is_pending:
            assert request_id not in driver.replies, "it is said before that on which it may rest is committed"
            driver.append()
        assert what_happens(driver, request_id) == expected, f"{is_pending=}"


IN_STATE = pytest.mark.parametrize("state", STATES)
WHILE_OPEN = pytest.mark.parametrize("state", OPEN)
BY_WHOM = pytest.mark.parametrize("who", WHO)


@WHILE_OPEN
@BY_WHOM
@pytest.mark.parametrize("version", [1, 2])
def test_end(version: int, who: str, state: str):
    for result in ("abort", "commit"):
        check(
            state,
            lambda driver, commit=result == "commit": driver.end(WHO[who], commit=commit, version=version),
            cell(END, result, version=str(version), who=who, state=state),
        )


@WHILE_OPEN
@BY_WHOM
def test_add_and_verify(who: str, state: str):
    for partition, (version, verify_only) in product((ORDERS_0, ORDERS_1), ((1, False), (2, False), (1, True))):
        check(
            state,
            lambda driver, partition=partition, version=version, verify_only=verify_only: driver.add(
                WHO[who], partition, version=version, verify_only=verify_only
            ),
            cell(ADD, "outcome", who=who, state=state),
        )


@WHILE_OPEN
@pytest.mark.parametrize("who", ["unnamed", *WHO])
def test_init(who: str, state: str):
    check(state, lambda driver: driver.init(expected=WHO.get(who)), cell(INIT, state, who=who))


@IN_STATE
@pytest.mark.parametrize("who", ["unnamed", "same", "newer"])
def test_init_that_keeps(who: str, state: str):
    check(
        state,
        lambda driver: driver.init(expected=WHO.get(who), keep_prepared=True),
        cell(KEEP, who, state=state),
    )


@IN_STATE
@pytest.mark.parametrize("how", ["same", "otherwise", "newer"])
def test_prepare(how: str, state: str):
    who = WHO["newer" if how == "newer" else "same"]
    check(
        state,
        lambda driver: driver.prepare(who, context=b"43" if how == "otherwise" else b"42"),
        cell(PREPARE, how, state=state),
    )


@IN_STATE
@pytest.mark.parametrize("who", ["last", "older", "other", "nobody"])
def test_prepare_by_strangers(who: str, state: str):
    expected = "INVALID_PRODUCER_ID_MAPPING" if who in ("other", "nobody") else "PRODUCER_FENCED"
    check(state, lambda driver: driver.prepare(WHO[who]), expected)


@IN_STATE
@pytest.mark.parametrize("is_unprepared", [False, True])
def test_complete(is_unprepared: bool, state: str):
    for result in ("commit", "abort"):
        check(
            state,
            lambda driver, commit=result == "commit": driver.complete(
                WHO["same"], commit=commit, is_unprepared=is_unprepared
            ),
            cell(COMPLETE, ("unprepared_" if is_unprepared else "") + result, state=state),
        )


@IN_STATE
@pytest.mark.parametrize("is_unprepared", [False, True])
def test_complete_by_another_token(is_unprepared: bool, state: str):
    for who in ("last", "older", "other", "nobody"):
        check(
            state,
            lambda driver, who=who: driver.complete(WHO[who], is_unprepared=is_unprepared),
            "INVALID_PRODUCER_ID_MAPPING",
        )
    for commit, expected in ((True, "NONE"), (False, "INVALID_TXN_STATE")):
        check(
            state,
            lambda driver, commit=commit: driver.complete(REMEMBERED, commit=commit, is_unprepared=is_unprepared),
            expected,
        )


# By a resolver that was asked about the open transaction, of this token or another one: what it says, or does not know.
ANSWER = """
    state            commit          abort           unknown  another
    EMPTY            EMPTY           EMPTY           EMPTY    EMPTY
    ONGOING          ONGOING         ONGOING         ONGOING  ONGOING
    PREPARED         ONGOING         ONGOING         ONGOING  ONGOING
    KEPT             ONGOING         ONGOING         ONGOING  ONGOING
    KEPT_PREPARED    ONGOING         ONGOING         ONGOING  ONGOING
    RESOLVABLE       PREPARE_COMMIT  PREPARE_ABORT   ONGOING  ONGOING
    ASKED            PREPARE_COMMIT  PREPARE_ABORT   ONGOING  ONGOING
    PREPARE_COMMIT   PREPARE_COMMIT  PREPARE_COMMIT  PREPARE_COMMIT  PREPARE_COMMIT
    PREPARE_ABORT    PREPARE_ABORT   PREPARE_ABORT   PREPARE_ABORT   PREPARE_ABORT
    COMPLETE_COMMIT  COMPLETE_COMMIT COMPLETE_COMMIT COMPLETE_COMMIT COMPLETE_COMMIT
    COMPLETE_ABORT   COMPLETE_ABORT  COMPLETE_ABORT  COMPLETE_ABORT  COMPLETE_ABORT
"""


@IN_STATE
@pytest.mark.parametrize("answer", ["commit", "abort", "unknown", "another"])
def test_answer_of_a_resolver(answer: str, state: str):
    driver = driver_in(state, is_pending=False)
    token = WHO["last" if answer == "another" else "same"]
    commit = {"commit": True, "abort": False, "unknown": None, "another": True}[answer]

    driver.send(ResolverAnswered(TRANSACTIONAL_ID, token, 1, commit))

    assert driver.current().state.name == cell(ANSWER, answer, state=state)
    assert bool(driver.appends) is (state in ("RESOLVABLE", "ASKED") and answer in ("commit", "abort"))
