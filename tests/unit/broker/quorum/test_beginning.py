"""An empty metadata log is begun once, by the voter whose directory was formatted for it, and never again."""

from eagleray.broker.runtime.deadlines import NEVER_MS
from tests.support.quorum import TIMEOUT_MS, Voters


def test_voters_with_empty_logs_elect_none_of_them_unless_one_may_begin() -> None:
    voters = Voters(1, 2, 3, is_new=True, may_begin=False)
    for _ in range(5):
        voters.now_ms += 2 * TIMEOUT_MS
        for node_id in (1, 2, 3):
            voters.tick(node_id)
        voters.carry()
    assert not any(voters[node_id].is_leader or voters[node_id].may_stand for node_id in (1, 2, 3))
    assert voters[1].next_due_ms == NEVER_MS
    voters.may_begin = True
    voters.start(2)
    voters.elect(2)
    assert voters[2].is_settled


def test_voter_that_has_got_a_log_from_others_may_lead_like_any_other() -> None:
    voters = Voters(1, 2, 3, is_new=True, may_begin=False)
    voters.may_begin = True
    voters.start(1)
    voters.elect(1)
    voters.elect(2, 3)
    assert voters[2].is_settled
