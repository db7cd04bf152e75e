"""`eagleray storage dump` prints what Kafka's own DumpLogSegments prints, line by line."""

import re
from pathlib import Path

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import names
from eagleray.protocol.records import CompressionType, NewRecord, build_batch
from tests.compat.kafka_tools.dump_log import Decoder, KafkaTools
from tests.compat.kafka_tools.test_group_records import written_by
from tests.support.classic_groups import ClassicDriver
from tests.support.cli_cluster import succeed
from tests.support.data_directories import write_directory
from tests.support.keyed_log import FIRST_TRANSACTIONAL, IDEMPOTENT, KeyedLog, compacting

pytestmark = pytest.mark.kafka_tools

KAFKAS = (names.LOG_SUFFIX, *names.INDEX_SUFFIXES, names.SNAPSHOT_SUFFIX)
NEWER = re.compile(r',"assignment(Timestamp":\d+|Epochs":\[[\d,]*\])')
"""Tagged fields that this release of the tool does not know."""

OURS = "|   eagleray: "
"""What our coordinator keeps beyond Kafka's fields is a line of its own."""


def kafkas_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in KAFKAS)


def dumped(*files: Path, options: tuple[str, ...] = ()) -> list[str]:
    printed = succeed("storage", "dump", *files, *options).stdout.rstrip("\n").split("\n")
    return [line for line in printed if not line.startswith(OURS)]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumped") / "data"
    write_directory(folder)
    return folder


@pytest.mark.parametrize("options", [(), ("--deep-iteration",), ("--print-data-log",)])
def test_every_file_of_a_partition_of_transactions(
    kafka_tools: KafkaTools, data_dir: Path, options: tuple[str, ...]
) -> None:
    files = kafkas_files(data_dir / "logs/orders-0")
    assert {path.suffix for path in files} == {*KAFKAS}
    assert dumped(*files, options=options) == kafka_tools.lines(*files, options=options)


@pytest.mark.parametrize(
    ("topic", "decoder"),
    [("__transaction_state", Decoder.TRANSACTION_LOG), ("__consumer_offsets", Decoder.CONSUMER_OFFSETS)],
)
def test_records_of_coordinators(kafka_tools: KafkaTools, data_dir: Path, topic: str, decoder: Decoder) -> None:
    files = [path for path in kafkas_files(data_dir / f"logs/{topic}-0") if path.suffix == names.LOG_SUFFIX]
    expected = kafka_tools.lines(*files, options=(decoder.value,))
    assert sum("payload: {" in line for line in expected) >= 3
    assert [NEWER.sub("", line) for line in dumped(*files, options=("--print-data-log",))] == expected


def test_generations_of_a_classic_group(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    driver = ClassicDriver()
    joined = driver.joined(driver.join(group_instance_id="host-1"))
    driver.sync_all([joined])
    driver.leave(joined.member_id)
    driver.settle()
    driver.delete_group()
    driver.settle()
    log = tmp_path / f"{0:020d}.log"
    written_by(driver, log)
    options = (Decoder.CONSUMER_OFFSETS.value,)
    assert dumped(log, options=("--decoder", "offsets")) == kafka_tools.lines(log, options=options)


def test_compacted_log_with_every_codec_and_odd_records(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    keyed = KeyedLog(LocalFileSystem(), compacting(index_interval_bytes=200), directory=str(directory))
    for number in range(3):
        for compression in CompressionType:
            keyed.put((b"a", b"%d" % number), (b"%d" % number, bytes(b"x" * 50)), compression=compression)
        keyed.put((b"only once %d" % number, b"1"), (b"b", None), producer_id=IDEMPOTENT)
        keyed.put((b"b", b"aborted"), producer_id=FIRST_TRANSACTIONAL)
        keyed.end(FIRST_TRANSACTIONAL, commit=False)
        keyed.put((b"open", b"open"), producer_id=FIRST_TRANSACTIONAL + 1 + number)
        keyed.roll()
        keyed.replicate()
    keyed.log.close()
    files = kafkas_files(directory)
    options = ("--print-data-log",)
    kafkas = kafka_tools.lines(*files, options=options)
    assert any("firstSequence: " in line for line in kafkas)
    assert any("OptionalLong[" in line for line in kafkas)
    assert dumped(*files, options=options) == kafkas


def test_headers_and_a_batch_with_a_wrong_checksum(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    records = [NewRecord(b"v", key=None, timestamp=5, headers=(("h", b"1"), ("i", None))), NewRecord(None, key=b"k")]
    damaged = bytearray(build_batch(records, base_offset=2))
    damaged[17] ^= 1
    log.write_bytes(build_batch(records) + bytes(damaged))
    printed = dumped(log, options=("--deep-iteration",))
    assert printed == kafka_tools.lines(log, options=("--deep-iteration",))
    assert printed[-3].endswith("isvalid: false")
