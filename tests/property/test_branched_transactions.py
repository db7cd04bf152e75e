"""Transactions with many writers, among ordinary ones: drivers and workers may die at any point, and so may others."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import AddPartitions, BeginBranched, EndBranched, OpenBranch
from tests.property.test_transaction_coordinator import NAMES, PARTITIONS, PLACES, VERSIONS, CoordinatorMachine

TAGS = st.sampled_from(["batch-1", "batch-2", "series#1", "series#2"])
BITS = st.integers(0, 15)


class BranchedMachine(CoordinatorMachine):
    """All that may happen to a coordinator, and jobs with many writers besides."""

    def _branches(self, name: str, bits: int) -> tuple[ProducerIdentity, ...]:
        """Some of the newest branches that somebody was told of; whether of this transaction, who knows."""
        newest = self.world.branches.get(name, [])[-4:]
        return tuple(branch for place, branch in enumerate(newest) if bits >> place & 1)

    @rule(name=NAMES, tag=TAGS, timeout_ms=st.sampled_from([60_000, 600_000]))
    def new_driver(self, name: str, tag: str, timeout_ms: int) -> None:
        self.world.request(BeginBranched(self._next_id(), name, tag, timeout_ms))

    @rule(name=NAMES, tag=TAGS, count=st.integers(1, 3), opens_branch=st.booleans())
    def workers_take_part(self, name: str, tag: str, count: int, opens_branch: bool) -> None:
        for _ in range(count):
            self.world.request(BeginBranched(self._next_id(), name, tag, 60_000, True, opens_branch))

    @rule(name=NAMES, place=PLACES, count=st.integers(1, 3))
    def driver_opens_branches(self, name: str, place: int, count: int) -> None:
        for _ in range(count):
            self.world.request(OpenBranch(self._next_id(), name, self._who(name, place)))

    @rule(name=NAMES, bits=BITS, partitions=PARTITIONS, version=VERSIONS, verify=st.booleans())
    def workers_write(self, name: str, bits: int, partitions: list[TopicPartition], version: int, verify: bool) -> None:
        for branch in self._branches(name, bits):
            self.world.request(AddPartitions(self._next_id(), name, branch, tuple(partitions), version, verify))

    @rule(name=NAMES, place=PLACES, commit=st.booleans(), bits=BITS)
    def driver_ends(self, name: str, place: int, commit: bool, bits: int) -> None:
        owner, branches = self._who(name, place), self._branches(name, bits)
        self.world.request(EndBranched(self._next_id(), name, owner, commit, branches))

    @rule(
        name=NAMES,
        tag=TAGS,
        count=st.integers(0, 3),
        partitions=PARTITIONS,
        bits=BITS,
        commit=st.booleans(),
        is_shared=st.booleans(),
    )
    def whole_job(
        self,
        name: str,
        tag: str,
        count: int,
        partitions: list[TopicPartition],
        bits: int,
        commit: bool,
        is_shared: bool,
    ) -> None:
        """A job as it should be, so that commits are reached often; others may still cut in before it ends."""
        told = len(self.world.branches.get(name, []))
        if is_shared:
            self.workers_take_part(name, tag, count, True)
        else:
            self.world.request(BeginBranched(self._next_id(), name, tag))
        self.world.settle()
        if not self.world.identities.get(name):
            return
        owner = self.world.identities[name][-1]
        for _ in range(0 if is_shared else count):
            self.world.request(OpenBranch(self._next_id(), name, owner))
        self.world.settle()
        opened = self.world.branches.get(name, [])[told:]
        for branch in opened:
            self.world.request(AddPartitions(self._next_id(), name, branch, tuple(partitions), 2))
        named = tuple(branch for place, branch in enumerate(opened) if bits >> place & 1)
        self.world.request(EndBranched(self._next_id(), name, owner, commit, named))


TestBranchedTransactions = BranchedMachine.TestCase
