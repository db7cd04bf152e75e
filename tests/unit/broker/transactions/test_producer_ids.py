"""The producer-id allocator: reserved first, then handed out."""

from eagleray.broker.transactions.producer_ids import (
    BLOCK_SIZE,
    AllocateBlock,
    BlockAllocated,
    IdsNotReserved,
    IdsReserved,
    ProducerIdAllocator,
    ReserveIds,
)
from eagleray.protocol.errors import ErrorCode

NONE = ErrorCode.NONE


def test_a_block_is_reserved_before_it_is_handed_out():
    allocator = ProducerIdAllocator()

    assert allocator.handle(AllocateBlock(1)) == [ReserveIds(1, 1000)]
    assert allocator.handle(IdsReserved(1, 7000)) == [BlockAllocated(1, NONE, 7000, BLOCK_SIZE)]


def test_those_who_ask_meanwhile_share_the_next_reservation():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    assert allocator.handle(AllocateBlock(2)) == []
    assert allocator.handle(AllocateBlock(3)) == []

    assert allocator.handle(IdsReserved(1, 0)) == [BlockAllocated(1, NONE, 0, 1000), ReserveIds(2, 2000)]
    assert allocator.handle(IdsReserved(2, 5000)) == [
        BlockAllocated(2, NONE, 5000, 1000),
        BlockAllocated(3, NONE, 6000, 1000),
    ]


def test_those_who_waited_behind_a_failure_get_their_own_try():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    allocator.handle(AllocateBlock(2))

    assert allocator.handle(IdsNotReserved(1, ErrorCode.KAFKA_STORAGE_ERROR)) == [
        BlockAllocated(1, ErrorCode.KAFKA_STORAGE_ERROR),
        ReserveIds(2, 1000),
    ]


def test_an_answer_that_is_late_hands_out_nothing():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    allocator.handle(IdsNotReserved(1, ErrorCode.NOT_CONTROLLER))
    allocator.handle(AllocateBlock(2))

    assert allocator.handle(IdsReserved(1, 0)) == []
    assert allocator.handle(IdsReserved(2, 1000)) == [BlockAllocated(2, NONE, 1000, 1000)]


def test_the_same_answer_twice_hands_out_nothing_twice():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    allocator.handle(IdsReserved(1, 0))

    assert allocator.handle(IdsReserved(1, 0)) == []
