"""No producer id twice, whatever is lost on the way to the controller and whenever the allocator dies."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from eagleray.broker.transactions.producer_ids import (
    AllocateBlock,
    AllocatorEvent,
    BlockAllocated,
    IdsNotReserved,
    IdsReserved,
    ProducerIdAllocator,
    ReserveIds,
)
from eagleray.protocol.errors import ErrorCode


class AllocatorMachine(RuleBasedStateMachine):
    """A controller that may or may not have reserved what it was asked for, and an allocator that dies at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved = 0
        self.asked_for: ReserveIds | None = None
        self.answered: list[IdsReserved] = []
        self.waiting: set[int] = set()
        self.given: list[range] = []
        self.request_id = 0
        self.allocator = ProducerIdAllocator()

    def tell(self, event: AllocatorEvent) -> None:
        for effect in self.allocator.handle(event):
            if isinstance(effect, ReserveIds):
                assert self.asked_for is None, "one reservation at a time"
                self.asked_for = effect
            else:
                self.see_answered(effect)

    def see_answered(self, answer: BlockAllocated) -> None:
        self.waiting.remove(answer.request_id)
        if answer.error_code is ErrorCode.NONE:
            block = range(answer.first_id, answer.first_id + answer.count)
            assert len(block) == 1000
            assert block[-1] < self.reserved, "handed out before it was reserved"
            assert all(block[0] > other[-1] for other in self.given), "an id is given twice"
            self.given.append(block)

    def reserve(self, asked_for: ReserveIds) -> IdsReserved:
        first_id = self.reserved
        self.reserved += asked_for.count
        return IdsReserved(asked_for.token, first_id)

    @rule()
    def asked(self) -> None:
        self.request_id += 1
        self.waiting.add(self.request_id)
        self.tell(AllocateBlock(self.request_id))

    @precondition(lambda self: self.asked_for is not None)
    @rule()
    def came(self) -> None:
        asked_for, self.asked_for = self.asked_for, None
        answer = self.reserve(asked_for)
        self.answered.append(answer)
        self.tell(answer)

    @precondition(lambda self: self.answered)
    @rule()
    def came_again(self) -> None:
        self.tell(self.answered[-1])

    @precondition(lambda self: self.asked_for is not None)
    @rule(was_reserved=st.booleans())
    def failed(self, was_reserved: bool) -> None:
        asked_for, self.asked_for = self.asked_for, None
        if was_reserved:
            self.reserve(asked_for)
        self.tell(IdsNotReserved(asked_for.token, ErrorCode.COORDINATOR_NOT_AVAILABLE))

    @rule(was_reserved=st.booleans())
    def died(self, was_reserved: bool) -> None:
        if was_reserved and self.asked_for is not None:
            self.reserve(self.asked_for)
        self.asked_for = None
        self.answered.clear()
        self.waiting.clear()
        self.allocator = ProducerIdAllocator()

    def teardown(self) -> None:
        while self.asked_for is not None:
            self.came()
        assert not self.waiting, "somebody waits for ever"


TestAllocator = AllocatorMachine.TestCase
