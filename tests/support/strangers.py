"""What strangers on the network send: frames that no client of Kafka sends, and far too much of what clients send."""

import gzip
import os
import socket
import struct
import time
from contextlib import ExitStack, suppress

from eagleray.actors.lanes.frames import TOKEN_BYTES, encode_preface
from eagleray.protocol.codec import encode_request
from eagleray.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from eagleray.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from eagleray.protocol.messages.end_txn import EndTxnRequest
from eagleray.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from eagleray.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eagleray.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eagleray.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from eagleray.protocol.records import NewRecord, build_batch
from tests.unit.protocol.forge import forge_bytes

MB = 1024 * 1024
INT32_MAX, INT64_MAX, HUGE_EPOCH = 2**31 - 1, 2**63 - 1, 2**31 - 1
MANY_IDS = 1000
"""Among so many producer ids is that of the honest load."""


class Strangers:
    """Sends each kind to a node, on connections of its own, which stay open until `close`.

    `honest` is the topic, and the transactional id, of the honest load beside it, which the strangers would spoil if
    they could. They write to a topic of their own, and to a compacted one.
    """

    def __init__(self, honest, topic, compacted):
        self._honest = honest
        self._topic = topic
        self._compacted = compacted
        self._open = ExitStack()

    def close(self):
        self._open.close()

    def kinds(self):
        """The name of each kind, and what it sends, as many times as connections are to send it."""
        return {
            # What once ended a process, or spoilt something for others.
            "a transactional id of 40,000 bytes": [self._ask(InitProducerIdRequest("x" * 40_000, 1000), 4)] * 2,
            "markers of no coordinator": [self._markers(epoch) for epoch in (0, HUGE_EPOCH)],
            "an internal topic in the transaction of another": [self._join(version) for version in (4, 5)],
            "connections that say no more than how they begin": [b"EAGL"] * 100,
            "a batch that claims two billion records": [self._produce(_claiming(INT32_MAX))],
            "a record without a key in a compacted topic": [self._produce(_batch(), self._compacted)],
            "the epoch that belongs to no producer": [self._end(version, 32_767) for version in (3, 5)],
            "metadata of many topics": [self._metadata(number) for number in range(5)],
            # Ten kinds more, and some.
            "half of a request": [struct.pack(">i", 2 * MB) + bytes(MB)] * 20,
            "a length that is negative": [struct.pack(">i", -1)],
            "a length of two gigabytes": [struct.pack(">i", INT32_MAX) + bytes(1000)],
            "another protocol": [
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            ],
            "chance": [os.urandom(size) for size in (5, 100, 10_000)],
            "frames of chance": [_framed(os.urandom(size)) for size in (0, 1, 8, 100, 10_000)],
            "an API that there is not": [_framed(struct.pack(">hhih", 999, 0, 1, -1))],
            "a version that there is not": [_framed(struct.pack(">hhih", key, 99, 1, -1)) for key in (0, 1, 3, 18, 22)],
            "an array of two billion": [_framed(struct.pack(">hhihi", 3, 8, 1, -1, INT32_MAX))],
            "a request that is cut off": [_cut(self._metadata(9)), _cut(self._produce(_batch()))],
            "consumers that never read": [self._fetch(0, 50 * MB) * 40] * 3,
            "fetches that wait": [self._fetch(INT64_MAX - 1, MB) * 10, self._fetch(-5, -1)],
            "groups without end": [self._groups(number) for number in range(5)],
            "offsets without end": [self._offsets(number) for number in range(5)],
            "transactional ids without end": [self._ids(number) for number in range(5)],
            "two billion partitions": [
                self._ask(CreateTopicsRequest((CreatableTopic("stranger", INT32_MAX, replicas),), 1000), 5)
                for replicas in (1, 32_767)
            ],
            "records that unpack to too much": [self._produce(_bomb())],
            "a token of another cluster": [encode_preface(b"x" * TOKEN_BYTES)] * 3,
            "a producer id of another": [self._produce(_batch(producer_id=number)) for number in (0, 1, INT64_MAX)],
            "requests without a pause": [self._ask(ApiVersionsRequest("stranger", "1"), 3) * 5_000],
        }

    def send(self, address, sent):
        """Send something on a connection of its own, at which the node may hang up."""
        connection = self._open.enter_context(socket.create_connection(address, timeout=60))
        with suppress(OSError):
            connection.sendall(sent)
        return connection

    def _ask(self, request, version):
        return encode_request(request, version, 1, "stranger")

    def _produce(self, batch, topic=None):
        data = TopicProduceData(topic or self._topic, bytes(16), (PartitionProduceData(0, bytes(batch)),))
        return self._ask(ProduceRequest(None, -1, 1000, (data,)), 9)

    def _markers(self, epoch):
        topics = (WritableTxnMarkerTopic(self._honest, (0, 1)),)
        markers = tuple(
            WritableTxnMarker(producer_id, 0, is_commit, topics, epoch)
            for producer_id in range(MANY_IDS)
            for is_commit in (True, False)
        )
        return self._ask(WriteTxnMarkersRequest(markers), 1)

    def _join(self, version):
        topics = tuple(AddPartitionsToTxnTopic(name, (0,)) for name in ("__transaction_state", self._honest))
        joins = tuple(
            AddPartitionsToTxnTransaction(self._honest, number, 0, False, topics) for number in range(MANY_IDS)
        )
        return self._ask(AddPartitionsToTxnRequest(transactions=joins), version)

    def _end(self, version, epoch):
        return b"".join(
            self._ask(EndTxnRequest(self._honest, number, epoch, True), version) for number in range(MANY_IDS)
        )

    def _metadata(self, number):
        names = tuple(MetadataRequestTopic(name=f"none-{number}-{each}") for each in range(2_000))
        return self._ask(MetadataRequest(names, allow_auto_topic_creation=True), 12)

    def _fetch(self, offset, max_bytes):
        partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics = (FetchTopic(self._topic, partitions=(partition,)),)
        return self._ask(FetchRequest(max_wait_ms=INT32_MAX, min_bytes=1, topics=topics), 11)

    def _groups(self, number):
        protocols = (JoinGroupRequestProtocol("range", bytes(1000)),)
        return b"".join(
            self._ask(JoinGroupRequest(f"group-{number}-{each}", 60_000, 1000, "", None, "consumer", protocols), 5)
            for each in range(200)
        )

    def _offsets(self, number):
        topics = (OffsetCommitRequestTopic(self._topic, partitions=(OffsetCommitRequestPartition(0, 1),)),)
        return b"".join(
            self._ask(OffsetCommitRequest(f"offsets-{number}-{each}", topics=topics), 8) for each in range(200)
        )

    def _ids(self, number):
        return b"".join(self._ask(InitProducerIdRequest(f"id-{number}-{each}", 1000), 4) for each in range(200))


def _framed(payload):
    return struct.pack(">i", len(payload)) + payload


def _cut(request):
    """A frame whose end is missing, with a length that says so."""
    return _framed(request[4 : len(request) // 2])


def _batch(**producer):
    fields = {"producer_epoch": 0, "base_sequence": 7} | producer if producer else {}
    return build_batch([NewRecord(b"stranger", timestamp=time.time_ns() // 1_000_000)], **fields)


def _claiming(records):
    return forge_bytes(record_count=records, last_offset_delta=records - 1)


def _bomb():
    return forge_bytes(gzip.compress(bytes(50 * MB)), attributes=1)
