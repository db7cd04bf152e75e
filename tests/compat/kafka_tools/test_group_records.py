"""What Kafka's own tool reads of the members of groups in `__consumer_offsets`."""

from base64 import b64encode
from pathlib import Path

import pytest

from eagleray.protocol.records import NewRecord, build_batch
from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools
from tests.support.classic_groups import REBALANCE_MS, SESSION_MS, ClassicDriver
from tests.support.groups import GROUP

pytestmark = pytest.mark.kafka_tools


def written_by(driver: ClassicDriver, log: Path) -> None:
    """Write the records of a coordinator's log, as they are there, into a segment."""
    records = [record for batch in driver.logs[0].batches() for record in batch.records()]
    batches = [
        build_batch([NewRecord(record.value, key=record.key, timestamp=driver.now_ms)], base_offset=offset)
        for offset, record in enumerate(records)
    ]
    log.write_bytes(b"".join(batches))


def test_generations_and_the_end_of_a_group(kafka_tools: KafkaTools, tmp_path: Path):
    driver = ClassicDriver()
    joined = driver.joined(driver.join(group_instance_id="host-1"))
    driver.sync_all([joined])
    driver.leave(joined.member_id)
    driver.settle()
    driver.delete_group()
    driver.settle()
    log = tmp_path / "00000000000000000000.log"
    written_by(driver, log)

    dump = kafka_tools.dump(log, decoder=Decoder.CONSUMER_OFFSETS)

    assert dump.problems == ()
    (key, generation), (_, emptied), (deleted_key, deleted) = (each.decoded() for each in dump.files[log].records)
    assert key == deleted_key
    assert key["data"] == {"group": GROUP}
    (member,) = generation["data"].pop("members")
    assert generation["data"] == {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": joined.member_id,
        "currentStateTimestamp": driver.now_ms,
    }
    assert member == {
        "memberId": joined.member_id,
        "groupInstanceId": "host-1",
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": REBALANCE_MS,
        "sessionTimeout": SESSION_MS,
        "subscription": {"topics": ["orders"], "userData": None},
        "assignment": b64encode(f"of {joined.member_id}".encode()).decode(),
    }
    assert (emptied["data"]["generation"], emptied["data"]["members"]) == (2, [])
    assert deleted is None
