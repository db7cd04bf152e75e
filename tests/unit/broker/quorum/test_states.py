"""What voters become is what the table of their states allows, and all of that."""

import random

from eagleray.broker.quorum.states import VALID_PREVIOUS, VoterState
from tests.support.quorum import TIMEOUT_MS, Voters

ALLOWED = {(before, after) for after, befores in VALID_PREVIOUS.items() for before in befores}


class WatchedVoters(Voters):
    """Notes from which state to which each event has taken a voter."""

    def __init__(self, *node_ids):
        self.seen = set()
        super().__init__(*node_ids)

    def watch(self, node_id, act):
        before = self[node_id].state
        act()
        after = self[node_id].state
        if after is not before:
            self.seen.add((before, after))

    def tick(self, node_id):
        self.watch(node_id, lambda: super(WatchedVoters, self).tick(node_id))

    def tell(self, node_id, message):
        self.watch(node_id, lambda: super(WatchedVoters, self).tell(node_id, message))


def transitions_of(seed):
    """Let time pass and carry or lose messages at random."""
    chance = random.Random(seed)
    voters = WatchedVoters(1, 2, 3)
    for _ in range(300):
        voters.now_ms += chance.randrange(TIMEOUT_MS)
        voters.tick(chance.choice((1, 2, 3)))
        loss = chance.choice((0, 0.3, 0.6))
        voters.carry(lambda source, effect, loss=loss: chance.random() >= loss)
    return voters.seen


def test_voters_go_from_state_to_state_as_the_table_says():
    assert set().union(*map(transitions_of, range(20))) == ALLOWED


def test_single_voter_leads_at_once():
    voters = Voters(1)
    assert voters[1].state is VoterState.FOLLOWER
    voters.tick(1)
    assert voters[1].state is VoterState.LEADER
