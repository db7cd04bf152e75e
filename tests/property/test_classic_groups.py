"""Classic groups whose members do as they like, with a log that fails, and crashes in between."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.classic_world import ClassicWorld

CLIENTS = st.integers(0, 5)
PROTOCOLS = st.sampled_from([("a",), ("a",), ("a", "b"), ("b", "a"), ("b",)])


class ClassicMachine(RuleBasedStateMachine):
    """Anything may happen to a group at any time."""

    @initialize(delay_ms=st.sampled_from([0, 0, 3000]), max_size=st.sampled_from([2, 100, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.world = ClassicWorld(delay_ms, max_size)

    # Members

    @rule(client=CLIENTS, protocols=PROTOCOLS, forgets_id=st.sampled_from([False, False, False, True]))
    def join(self, client: int, protocols: tuple[str, ...], forgets_id: bool) -> None:
        self.world.client_joins(self.world.clients[client], protocols, forgets_id=forgets_id)

    @rule(client=CLIENTS)
    def sync(self, client: int) -> None:
        self.world.client_syncs(self.world.clients[client])

    @rule(client=CLIENTS, action=st.sampled_from(["beats", "leaves", "commits"]))
    def act(self, client: int, action: str) -> None:
        getattr(self.world, f"client_{action}")(self.world.clients[client])

    # Whole steps, so that generations come to something

    @rule(clients=st.sets(CLIENTS, min_size=1), protocols=PROTOCOLS)
    def come_together(self, clients: set[int], protocols: tuple[str, ...]) -> None:
        self.world.rally(clients, protocols)

    @rule(clients=st.sets(CLIENTS, min_size=1), settles=st.booleans())
    def get_assignments(self, clients: set[int], settles: bool) -> None:
        for client in clients:
            self.world.client_syncs(self.world.clients[client])
        if settles:
            self.world.settle()

    @rule(clients=st.sets(CLIENTS, min_size=1))
    def become_stable(self, clients: set[int]) -> None:
        self.world.rally(clients, ("a",))
        self.get_assignments(clients, settles=True)

    @rule(client=st.integers(0, 1), times=st.integers(1, 2), settles=st.booleans())
    def instance_comes_back(self, client: int, times: int, settles: bool) -> None:
        for _ in range(times):
            self.world.client_joins(self.world.clients[client], ("a",), forgets_id=True)
        if settles:
            self.world.settle()

    # The log

    @precondition(lambda self: self.world.appends)
    @rule(fails=st.sampled_from([False, False, True]))
    def log_answers(self, fails: bool) -> None:
        if fails:
            self.world.lose_newest()
        else:
            self.world.append()

    @rule(refuses=st.sampled_from([False, False, True]))
    def log_refuses(self, refuses: bool) -> None:
        self.world.refuse(refuses=refuses)

    # Time and trouble

    @rule(after_ms=st.sampled_from([1, 3000, 9999, 10_000, 31_000, 310_000]))
    def time_passes(self, after_ms: int) -> None:
        self.world.pass_time(after_ms)

    @rule(clients=st.sets(CLIENTS))
    def time_passes_for_the_living(self, clients: set[int]) -> None:
        """Long enough for a rebalance to end, while some send heartbeats."""
        for _ in range(8):
            for client in clients:
                self.world.client_beats(self.world.clients[client])
            self.world.pass_time(5000)

    @rule(what=st.sampled_from(["delete", "crash", "resign_and_lead"]))
    def trouble(self, what: str) -> None:
        getattr(self.world, what)()

    @invariant()
    def everything_hangs_together(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.see_everything_end()


TestClassicGroups = ClassicMachine.TestCase
