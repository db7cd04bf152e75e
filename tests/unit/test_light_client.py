"""The benchmarks' light client: frames that are patched are those that the codec would have encoded."""

import pytest

from benchmarks.kafka.comparing import Figures
from benchmarks.kafka.frames import SIZE_BYTES, VERSION_1, VERSION_2, Frames, Place
from eagleray.protocol.codec import decode_request, encode_response
from eagleray.protocol.messages.end_txn import EndTxnResponse
from eagleray.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from eagleray.protocol.records import split_batches

PLACE = Place("topic", 3)


def frames(versions):
    made = Frames("id", PLACE, versions, b"value")
    made.take_identity(4711, 7)
    return made


def batch_of(made):
    request = decode_request(bytes(made.produce[SIZE_BYTES:])).body
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    (batch,) = split_batches(partition.records)
    batch.verify_crc()
    header = batch.header
    assert (request.transactional_id, topic.name, partition.index, header.producer_id) == ("id", "topic", 3, 4711)
    return header.producer_epoch, header.base_sequence


def ended(versions, **fields):
    return encode_response(EndTxnResponse(**fields), versions.end_txn, 0)[SIZE_BYTES:]


def end_of(made):
    request = decode_request(bytes(made.end_txn[SIZE_BYTES:])).body
    return request.producer_id, request.producer_epoch, request.committed


def test_version_one_counts_sequences():
    made = frames(VERSION_1)
    assert batch_of(made) == (7, 0)
    made.next_transaction(ended(VERSION_1))
    assert (batch_of(made), end_of(made)) == ((7, 1), (4711, 7, True))


def test_version_two_takes_the_next_epoch():
    made = frames(VERSION_2)
    made.next_transaction(ended(VERSION_2, producer_id=4711, producer_epoch=8))
    assert (batch_of(made), end_of(made)) == ((8, 0), (4711, 8, True))


def test_version_two_takes_the_next_identity():
    made = frames(VERSION_2)
    made.next_transaction(ended(VERSION_2, producer_id=5000, producer_epoch=0))
    assert end_of(made) == (5000, 0, True)


@pytest.mark.parametrize("code", [0, 3, 51])
def test_errors_are_found(code):
    made = frames(VERSION_1)
    partition = PartitionProduceResponse(index=3, error_code=code, base_offset=12345)
    response = ProduceResponse((TopicProduceResponse(name="topic", partition_responses=(partition,)),))
    assert made.produced_error(encode_response(response, VERSION_1.produce, 0)[SIZE_BYTES:]) == code
    assert made.ended_error(ended(VERSION_1, error_code=code)) == code


def test_ratios_say_which_way_is_better():
    figures = Figures(["kafka", "colocated"])
    for value in (100.0, 300.0, 200.0):
        figures.add("kafka", "txn1", {"rate": value, "p50_ms": 2.0})
        figures.add("colocated", "txn1", {"rate": value * 2, "p50_ms": 3.0})
    rate, latency = figures.rows()
    assert rate[2:] == ["200 (100-300)", "400 (200-600)", "2.00 ✓"]
    assert latency[2:] == ["2.00 (2.00-2.00)", "3.00 (3.00-3.00)", "1.50 ✗"]
