"""No producer id twice, whatever is lost on the way to the disk and whenever the allocator dies."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from eagleray.broker.transactions.producer_ids import (
    AllocateBlock,
    AllocatorEvent,
    BlockAllocated,
    NextIdLost,
    NextIdPersisted,
    PersistNextId,
    ProducerIdAllocator,
)
from eagleray.protocol.errors import ErrorCode


class AllocatorMachine(RuleBasedStateMachine):
    """A disk that may or may not have what it was given, and an allocator that dies at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.on_disk = 0
        self.being_written: int | None = None
        self.waiting: set[int] = set()
        self.given: list[range] = []
        self.request_id = 0
        self.allocator = ProducerIdAllocator(self.on_disk)

    def tell(self, event: AllocatorEvent) -> None:
        for effect in self.allocator.handle(event):
            if isinstance(effect, PersistNextId):
                assert self.being_written is None, "one write at a time"
                self.being_written = effect.next_id
            else:
                self.see_answered(effect)

    def see_answered(self, answer: BlockAllocated) -> None:
        self.waiting.remove(answer.request_id)
        if answer.error_code is ErrorCode.NONE:
            block = range(answer.first_id, answer.first_id + answer.count)
            assert len(block) == 1000
            assert block[-1] < self.on_disk, "handed out before it was on disk"
            assert all(block[0] > other[-1] for other in self.given), "an id is given twice"
            self.given.append(block)

    @rule()
    def asked(self) -> None:
        self.request_id += 1
        self.waiting.add(self.request_id)
        self.tell(AllocateBlock(self.request_id))

    @precondition(lambda self: self.being_written is not None)
    @rule()
    def written(self) -> None:
        self.on_disk, self.being_written = self.being_written, None
        self.tell(NextIdPersisted(self.on_disk))

    @precondition(lambda self: self.being_written is not None)
    @rule(reached_the_disk=st.booleans())
    def failed(self, reached_the_disk: bool) -> None:
        next_id, self.being_written = self.being_written, None
        if reached_the_disk:
            self.on_disk = next_id
        self.tell(NextIdLost(next_id, ErrorCode.KAFKA_STORAGE_ERROR))

    @rule(reached_the_disk=st.booleans())
    def died(self, reached_the_disk: bool) -> None:
        if reached_the_disk and self.being_written is not None:
            self.on_disk = self.being_written
        self.being_written = None
        self.waiting.clear()
        self.allocator = ProducerIdAllocator(self.on_disk)

    def teardown(self) -> None:
        while self.being_written is not None:
            self.written()
        assert not self.waiting, "somebody waits for ever"


TestAllocator = AllocatorMachine.TestCase
