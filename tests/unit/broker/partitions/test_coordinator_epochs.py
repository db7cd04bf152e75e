"""Markers of coordinators that the metadata do not know, and of admins that end what hangs."""

import pytest

from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.messages import Marker
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.topics import TRANSACTION_STATE, PartitionImage, TopicImage
from eagleray.broker.partitions.coordinator_epochs import CoordinatorEpochs, newest_coordinator_epoch
from eagleray.broker.partitions.events import WriteMarkers
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.leading import LEADER_EPOCH, ORDERS, PRODUCER, alone, in_transaction, markers, open_log, verified
from tests.support.simulated_disk import SimulatedDisk


def image_with(*epochs):
    partitions = tuple(PartitionImage(1, epoch, (1,), (1,)) for epoch in epochs)
    return MetadataImage(topics={TRANSACTION_STATE: TopicImage(TRANSACTION_STATE, bytes(16), {}, partitions)})


def marker(coordinator_epoch, **fields):
    return Marker(PRODUCER, False, coordinator_epoch, 1, (ORDERS,), **fields)


def handle(leaders, *events):
    return leaders.handle(events, NOW_MS, NOW_MS)


def test_newest_coordinator_is_that_of_any_partition_of_the_transaction_log():
    assert newest_coordinator_epoch(EMPTY_IMAGE) == -1
    assert newest_coordinator_epoch(image_with(3, 9, 4)) == 9


def test_marker_is_taken_up_to_the_newest_epoch_and_the_metadata_are_read_only_beyond_it():
    reads = []
    epochs = CoordinatorEpochs(lambda: reads.append(None) or 5)
    assert [epochs.refusal_of(marker(epoch)) for epoch in (5, 4, 5)] == [ErrorCode.NONE] * 3
    assert len(reads) == 1
    assert epochs.refusal_of(marker(6)) is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def newest():
    return [5]


@pytest.fixture
def leaders(newest):
    leaders = PartitionLeaders(newest_coordinator_epoch=lambda: newest[0])
    leaders.lead(ORDERS, alone(open_log(SimulatedDisk()), LEADER_EPOCH))
    (question,) = handle(leaders, in_transaction(1))
    handle(leaders, verified(question))
    return leaders


def code_of(effects):
    (answered,) = effects
    return next(iter(answered.error_codes), ErrorCode.NONE)


def test_huge_coordinator_epoch_does_not_fence_the_true_markers(leaders):
    huge = handle(leaders, markers(2, ORDERS, coordinator_epoch=2**31 - 1))
    assert code_of(huge) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(handle(leaders, markers(3, ORDERS, coordinator_epoch=5))) is ErrorCode.NONE


def test_marker_of_a_coordinator_that_is_newer_than_the_metadata_comes_again(leaders, newest):
    newer = markers(2, ORDERS, coordinator_epoch=6)
    assert code_of(handle(leaders, newer)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    newest[0] = 6
    assert code_of(handle(leaders, newer)) is ErrorCode.NONE


def test_only_the_transaction_that_hangs_is_ended(leaders):
    assert code_of(handle(leaders, WriteMarkers(2, (marker(0, hanging_since=0),)))) is ErrorCode.NONE
    (question,) = handle(leaders, in_transaction(3, 1))
    handle(leaders, verified(question))
    # The admin has asked about the first one; by now another is open.
    assert code_of(handle(leaders, WriteMarkers(4, (marker(0, hanging_since=0),)))) is ErrorCode.INVALID_TXN_STATE
    assert leaders._leaders[ORDERS].log.producers.get(PRODUCER.producer_id).open_since_offset == 2


def test_transaction_of_an_unknown_producer_does_not_hang():
    assert ProducerState().check_marker(marker(0)) is None
    rejection = ProducerState().check_marker(marker(0, hanging_since=0))
    assert rejection.error_code is ErrorCode.INVALID_TXN_STATE
