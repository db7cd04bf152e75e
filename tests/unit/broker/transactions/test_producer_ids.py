"""The producer-id allocator: on disk first, then handed out."""

from eagleray.broker.transactions.producer_ids import (
    BLOCK_SIZE,
    LAST_PRODUCER_ID,
    AllocateBlock,
    BlockAllocated,
    NextIdLost,
    NextIdPersisted,
    PersistNextId,
    ProducerIdAllocator,
)
from eagleray.protocol.errors import ErrorCode

NONE = ErrorCode.NONE


def test_a_block_is_on_disk_before_it_is_handed_out():
    allocator = ProducerIdAllocator()

    assert allocator.handle(AllocateBlock(1)) == [PersistNextId(1000)]
    assert allocator.handle(NextIdPersisted(1000)) == [BlockAllocated(1, NONE, 0, BLOCK_SIZE)]


def test_it_goes_on_where_it_was():
    allocator = ProducerIdAllocator(next_id=7000)

    assert allocator.handle(AllocateBlock(1)) == [PersistNextId(8000)]
    assert allocator.handle(NextIdPersisted(8000)) == [BlockAllocated(1, NONE, 7000, BLOCK_SIZE)]


def test_those_who_ask_while_it_writes_share_the_next_write():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    assert allocator.handle(AllocateBlock(2)) == []
    assert allocator.handle(AllocateBlock(3)) == []

    assert allocator.handle(NextIdPersisted(1000)) == [BlockAllocated(1, NONE, 0, 1000), PersistNextId(3000)]
    assert allocator.handle(NextIdPersisted(3000)) == [
        BlockAllocated(2, NONE, 1000, 1000),
        BlockAllocated(3, NONE, 2000, 1000),
    ]


def test_what_could_not_be_written_is_skipped_and_not_used_again():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))

    lost = allocator.handle(NextIdLost(1000, ErrorCode.KAFKA_STORAGE_ERROR))

    assert lost == [BlockAllocated(1, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert allocator.handle(AllocateBlock(2)) == [PersistNextId(2000)]
    assert allocator.handle(NextIdPersisted(1000)) == [], "too late"
    assert allocator.handle(NextIdPersisted(2000)) == [BlockAllocated(2, NONE, 1000, 1000)]


def test_those_who_waited_behind_a_failure_get_their_own_try():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    allocator.handle(AllocateBlock(2))

    assert allocator.handle(NextIdLost(1000, ErrorCode.KAFKA_STORAGE_ERROR)) == [
        BlockAllocated(1, ErrorCode.KAFKA_STORAGE_ERROR),
        PersistNextId(2000),
    ]


def test_the_same_answer_twice_hands_out_nothing_twice():
    allocator = ProducerIdAllocator()
    allocator.handle(AllocateBlock(1))
    allocator.handle(NextIdPersisted(1000))

    assert allocator.handle(NextIdPersisted(1000)) == []


def test_when_all_ids_are_gone_there_are_none():
    allocator = ProducerIdAllocator(next_id=LAST_PRODUCER_ID - BLOCK_SIZE)

    assert allocator.handle(AllocateBlock(1)) == [PersistNextId(LAST_PRODUCER_ID)]
    allocator.handle(NextIdPersisted(LAST_PRODUCER_ID))
    assert allocator.handle(AllocateBlock(2)) == [BlockAllocated(2, ErrorCode.UNKNOWN_SERVER_ERROR)]
