"""The frames of a light transactional producer: encoded once by our codec, then only patched.

A real client spends more on a transaction than the broker does. This one encodes each request once, and changes the few
bytes that differ from transaction to transaction in place: the epoch, the sequence, the batch's checksum.
"""

import struct
import time
from collections.abc import Callable

from crc32c import crc32c
from msgspec import Struct

from eagleray.protocol.codec import decode_response, encode_request, encode_response
from eagleray.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from eagleray.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from eagleray.protocol.records import NewRecord, build_batch
from eagleray.protocol.records.header import ATTRIBUTES_POSITION

CLIENT_ID = "light"
SIZE_BYTES = 4
ACKS_ALL = -1

_CRC = struct.Struct(">I")
_CRC_POSITION = 17
_EPOCH_AND_SEQUENCE = struct.Struct(">hi")
_EPOCH_POSITION = 51
_EPOCH = struct.Struct(">h")
_ERROR = struct.Struct(">h")
_IDENTITY = struct.Struct(">qh")


class Versions(Struct, frozen=True):
    """Which versions a producer speaks; `adds_partitions` says whether it announces partitions itself."""

    transaction_version: int
    produce: int
    end_txn: int
    adds_partitions: bool


VERSION_1 = Versions(1, produce=11, end_txn=3, adds_partitions=True)
VERSION_2 = Versions(2, produce=12, end_txn=5, adds_partitions=False)
ADD_PARTITIONS_VERSION = 3


class Place(Struct, frozen=True):
    """Where a producer writes."""

    topic: str
    partition: int


def error_position(response_with: Callable[[int], Message], version: int) -> int:
    """Where the error code stands in a response, found by encoding two that differ in nothing else."""
    fine, failed = (encode_response(response_with(code), version, 0)[SIZE_BYTES:] for code in (0, 0x7FFF))
    return next(place for place, (one, other) in enumerate(zip(fine, failed, strict=True)) if one != other)


class Frames:
    """The requests of one producer to one partition, and where their responses have what matters."""

    def __init__(self, transactional_id: str, place: Place, versions: Versions, value: bytes) -> None:
        self._id = transactional_id
        self._place = place
        self._versions = versions
        self._value = value
        self._epoch = 0
        self._find_error_positions()

    def take_identity(self, producer_id: int, epoch: int) -> None:
        """Encode everything for this identity."""
        self._producer_id, self._epoch, self._sequence = producer_id, epoch, 0
        record = NewRecord(timestamp=int(time.time() * 1000), key=None, value=self._value)
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        data = TopicProduceData(
            name=self._place.topic, partition_data=(PartitionProduceData(self._place.partition, batch),)
        )
        produce = ProduceRequest(transactional_id=self._id, acks=ACKS_ALL, timeout_ms=30_000, topic_data=(data,))
        self.produce = bytearray(self._encode(produce, self._versions.produce))
        self._batch_at = self.produce.index(batch)
        self._batch_ends = self._batch_at + len(batch)
        end = EndTxnRequest(self._id, producer_id, epoch, committed=True)
        self.end_txn = bytearray(self._encode(end, self._versions.end_txn))
        self._end_epoch_at = self.end_txn.index(_IDENTITY.pack(producer_id, epoch)) + 8
        self.add_partitions = self._encode(self._add_partitions(producer_id, epoch), ADD_PARTITIONS_VERSION)

    def _encode(self, request: Message, version: int) -> bytes:
        return encode_request(request, version, 0, CLIENT_ID)

    def _add_partitions(self, producer_id: int, epoch: int) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(self._place.topic, (self._place.partition,)),),
        )

    def _find_error_positions(self) -> None:
        topic, partition = self._place.topic, self._place.partition

        def added(code: int) -> AddPartitionsToTxnResponse:
            result = AddPartitionsToTxnTopicResult(topic, (AddPartitionsToTxnPartitionResult(partition, code),))
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(result,))

        def produced(code: int) -> ProduceResponse:
            partition_response = PartitionProduceResponse(index=partition, error_code=code)
            return ProduceResponse((TopicProduceResponse(name=topic, partition_responses=(partition_response,)),))

        def ended(code: int) -> EndTxnResponse:
            return EndTxnResponse(error_code=code)

        self._added_at = error_position(added, ADD_PARTITIONS_VERSION)
        self._produced_at = error_position(produced, self._versions.produce)
        self._ended_at = error_position(ended, self._versions.end_txn)

    # What the responses say

    def added_error(self, response: bytes) -> int:
        return int(_ERROR.unpack_from(response, self._added_at)[0])

    def produced_error(self, response: bytes) -> int:
        return int(_ERROR.unpack_from(response, self._produced_at)[0])

    def ended_error(self, response: bytes) -> int:
        return int(_ERROR.unpack_from(response, self._ended_at)[0])

    # From transaction to transaction

    def next_transaction(self, ended: bytes) -> None:
        """Make the frames those of the next transaction, by what the answer to EndTxn said."""
        if not self._versions.adds_partitions:
            self._take_next_epoch(ended)
            return
        self._sequence += 1
        self._patch_batch()

    def _take_next_epoch(self, ended: bytes) -> None:
        # The new identity follows the error code.
        producer_id, epoch = _IDENTITY.unpack_from(ended, self._ended_at + _ERROR.size)
        if producer_id != self._producer_id:
            self.take_identity(producer_id, epoch)
            return
        self._epoch, self._sequence = epoch, 0
        self._patch_batch()
        _EPOCH.pack_into(self.end_txn, self._end_epoch_at, epoch)

    def _patch_batch(self) -> None:
        frame, begin = self.produce, self._batch_at
        _EPOCH_AND_SEQUENCE.pack_into(frame, begin + _EPOCH_POSITION, self._epoch, self._sequence)
        summed = bytes(frame[begin + ATTRIBUTES_POSITION : self._batch_ends])
        _CRC.pack_into(frame, begin + _CRC_POSITION, crc32c(summed))


def decoded(response: bytes, request: type[Message], version: int) -> object:
    """A response as our codec reads it; for the few that are not hot."""
    key = request.wire.api_key
    assert key is not None
    return decode_response(response, key, version).body
