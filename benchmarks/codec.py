"""The codec: the three requests of a transaction decoded, and their three responses encoded, headers included.

`python -m benchmarks.codec` shows the compiled codec, and beside it the plain interpreter that it is tested against.
The target is ten microseconds for all six together.
"""

from collections.abc import Callable
from functools import partial, reduce
from operator import add

from rich.console import Console

from benchmarks.report import Row, measure, rounds_table
from eagleray.protocol.codec import decode_request, encode_request, encode_response, find_api, interpreter
from eagleray.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader
from eagleray.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TRANSACTIONAL_ID = "transactional-id-0001"
TOPIC = "hello-topic"
CLIENT_ID = "producer-1"
CORRELATION_ID = 77
BATCH = bytes(200)

REQUESTS: tuple[tuple[Message, int], ...] = (
    (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=4711,
            v3_and_below_producer_epoch=3,
            v3_and_below_topics=(AddPartitionsToTxnTopic(TOPIC, (5,)),),
        ),
        3,
    ),
    (
        ProduceRequest(
            TRANSACTIONAL_ID,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(TOPIC, partition_data=(PartitionProduceData(5, BATCH),)),),
        ),
        9,
    ),
    (EndTxnRequest(TRANSACTIONAL_ID, 4711, 3, committed=True), 3),
)
RESPONSES: tuple[tuple[Message, int], ...] = (
    (
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=(
                AddPartitionsToTxnTopicResult(TOPIC, (AddPartitionsToTxnPartitionResult(5, 0),)),
            )
        ),
        3,
    ),
    (
        ProduceResponse(
            (
                TopicProduceResponse(
                    TOPIC, partition_responses=(PartitionProduceResponse(5, base_offset=1234, log_start_offset=0),)
                ),
            )
        ),
        9,
    ),
    (EndTxnResponse(), 3),
)

COMPILED_REPETITIONS = 20_000
INTERPRETED_REPETITIONS = 2_000


def interpret_request(frame: bytes) -> object:
    api_key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
    api = find_api(api_key)
    parts = [(RequestHeader, api.request_header_version(version)), (api.request, version)]
    return interpreter.decode_sequence(parts, frame)


def interpret_response(body: Message, version: int, correlation_id: int) -> bytes:
    assert body.wire.api_key is not None
    header_version = find_api(body.wire.api_key).response_header_version(version)
    payload = interpreter.encode(ResponseHeader(correlation_id), header_version) + interpreter.encode(body, version)
    return len(payload).to_bytes(4) + payload


def rows(
    decode: Callable[[bytes], object], encode: Callable[[Message, int, int], bytes], repetitions: int
) -> list[Row]:
    """Measure the six operations of a transaction, and all of them together."""
    measured = []
    for body, version in REQUESTS:
        frame = encode_request(body, version, CORRELATION_ID, CLIENT_ID)[4:]
        name = f"decode {type(body).__name__} v{version}, {len(frame)} bytes"
        measured.append(measure(name, partial(decode, frame), repetitions))
    for body, version in RESPONSES:
        name = f"encode {type(body).__name__} v{version}"
        measured.append(measure(name, partial(encode, body, version, CORRELATION_ID), repetitions))
    return [*measured, reduce(add, measured)]


def main() -> None:
    console = Console()
    compiled = rows(decode_request, encode_response, COMPILED_REPETITIONS)
    console.print(rounds_table("Codec, compiled: at most 10 µs together", compiled))
    interpreted = rows(interpret_request, interpret_response, INTERPRETED_REPETITIONS)
    console.print(rounds_table("Codec, interpreted: what it is tested against", interpreted))


if __name__ == "__main__":
    main()
