"""The producer-id allocator passes blocks on from the controller to coordinators."""

from types import SimpleNamespace

from eagleray.actors.roles.producer_id_allocator import ProducerIdAllocatorRole
from eagleray.broker.controller.events import ProducerIdsReserved, ReserveProducerIds
from eagleray.broker.transactions.producer_ids import AllocateBlock, BlockAllocated
from eagleray.protocol.errors import ErrorCode


class FakeContext:
    """Keeps what the controller is asked, and what coordinators are answered."""

    def __init__(self):
        self.asked = []
        self.answered = []
        self.controller = SimpleNamespace(ask=lambda *question: self.asked.append(question))

    def answer(self, reply):
        self.answered.append(reply)


def test_every_request_is_answered_with_the_block_that_the_controller_reserved_for_it():
    context = FakeContext()
    ProducerIdAllocatorRole(context).handle([AllocateBlock(1), AllocateBlock(2)])
    (first, *question), (second, *_) = context.asked
    assert question == [ReserveProducerIds, 1000]
    assert context.answered == [], "a block is handed out before it is reserved"
    second(ProducerIdsReserved(8, ErrorCode.NONE, 7000, 1000))
    first(ProducerIdsReserved(7, ErrorCode.NONE, 8000, 1000))
    assert context.answered == [
        BlockAllocated(2, ErrorCode.NONE, 7000, 1000),
        BlockAllocated(1, ErrorCode.NONE, 8000, 1000),
    ]


def test_refusal_of_the_controller_and_its_silence_are_passed_on():
    context = FakeContext()
    ProducerIdAllocatorRole(context).handle([AllocateBlock(1), AllocateBlock(2)])
    (first, *_), (second, *_) = context.asked
    first(ProducerIdsReserved(7, ErrorCode.KAFKA_STORAGE_ERROR))
    second(None)
    assert context.answered == [
        BlockAllocated(1, ErrorCode.KAFKA_STORAGE_ERROR),
        BlockAllocated(2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
