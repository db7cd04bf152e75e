"""What Kafka's own tool reads of a pool and its slots in `__transaction_state`."""

from pathlib import Path

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.log_records import encode_key, encode_value
from eagleray.broker.transactions.preparation import Preparation
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.records import NewRecord, build_batch
from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools

pytestmark = pytest.mark.kafka_tools

OWNER = ProducerIdentity(7, 3)


def slot(preparation: Preparation | None = None) -> Snapshot:
    return Snapshot(
        state=TransactionState.ONGOING,
        producer_id=9,
        producer_epoch=5,
        timeout_ms=60_000,
        partitions=frozenset({TopicPartition("orders", 1)}),
        start_ms=1000,
        updated_ms=2000,
        client_version=2,
        origin=b"till",
        preparation=preparation,
        owner=OWNER,
    )


def test_pool_and_its_slots_are_read_without_problem(kafka_tools: KafkaTools, tmp_path: Path):
    head = Snapshot(state=TransactionState.EMPTY, producer_id=7, producer_epoch=3, timeout_ms=60_000, updated_ms=1000)
    written = {
        "checkout": head,
        "checkout.__slot-0": slot(),
        "checkout.__slot-1": slot(Preparation(prepared_ms=2000, context=b"42")),
    }
    batches = [
        build_batch([NewRecord(encode_value(each), key=encode_key(name), timestamp=1000)], base_offset=offset)
        for offset, (name, each) in enumerate(written.items())
    ]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"".join(batches))

    dump = kafka_tools.dump(log, decoder=Decoder.TRANSACTION_LOG)

    assert dump.problems == ()
    pool, *slots = (each.decoded() for each in dump.files[log].records)
    assert (pool[0]["data"], pool[1]["data"]["producerEpoch"]) == ({"transactionalId": "checkout"}, 3)
    assert [key["data"]["transactionalId"] for key, _ in slots] == ["checkout.__slot-0", "checkout.__slot-1"]
    for _, value in slots:
        assert (value["data"]["producerId"], value["data"]["transactionStatus"]) == (9, 1)
        assert value["data"]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [1]}]
