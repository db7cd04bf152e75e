"""What `eagleray storage dump` shows of our own files; tests/compat compares the rest with Kafka's own tool."""

import pytest

from eagleray.offline.dump_log import Wanted
from eagleray.offline.dumping import dump_file, files_at
from tests.support.data_directories import flip, state_of

ORDERS = "logs/orders-0"
CONTENTS = Wanted(records=True, contents=True)


def dumped(path, wanted=CONTENTS):
    return [*dump_file(str(path), wanted)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{ORDERS}/partition-checkpoint.2", "high_watermark: 88"),
        (f"{ORDERS}/partition-checkpoint.2", "closed_cleanly: true"),
        (f"{ORDERS}/recovery-point", "version: 1"),
        (f"{ORDERS}/segment-bookmark", "offset: 88"),
        (f"{ORDERS}/leader-epoch-checkpoint", "epoch: 0 startOffset: 0"),
        (f"{ORDERS}/{22:020d}.checksums", ".txnindex size: 34"),
        ("logs/__cluster_metadata-0/quorum-state", "committed: 1"),
        ("nodes/0.identity", "node_id: 0"),
        ("nodes/0.life", "is_closed: true"),
        ("nodes/0.position", "version: "),
        ("nodes/0.image", "version: "),
    ],
)
def test_small_file_is_shown_as_text_and_as_damaged_where_it_is(data_dir, name, expected):
    path = data_dir / name
    shown = dumped(path)
    assert any(line.startswith(expected) for line in shown), shown
    assert not any("damaged" in line for line in shown)
    flip(path)
    assert any("damaged" in line for line in dumped(path))


def test_partition_metadata_are_shown_with_the_id_in_both_forms(data_dir):
    path = data_dir / ORDERS / "partition.metadata"
    version, topic_id, digits = dumped(path)
    assert (version, topic_id[:10], len(digits.split()[-1])) == ("version: 0", "topic_id: ", 32)
    flip(path, 3)
    assert "damaged" in dumped(path)[-1]


def test_every_file_is_known_and_none_is_changed(data_dir):
    before = state_of(data_dir)
    unknown = [path for path in files_at(str(data_dir)) if dump_file(path, CONTENTS) is None or not dumped_all(path)]
    assert {path.rpartition(".")[2] for path in unknown} == {"lock", "port", "reserve"}
    assert state_of(data_dir) == before


def dumped_all(path):
    """Whether all lines of a file can be made, also where there are none."""
    return dumped(path) is not None


def test_changes_of_the_metadata_are_shown_by_their_names(data_dir):
    (log,) = (data_dir / "logs/__cluster_metadata-0").glob("*.log")
    shown = dumped(log)
    (created,) = [line for line in shown if '"name":"orders"' in line]
    assert '{"type":"TopicCreated","name":"orders","topic_id":"' in created
    assert '"segment.bytes":"1024"' in created
    assert not any("Error at decoding" in line for line in shown)


def test_fields_of_ours_in_transactions_are_lines_of_their_own(data_dir):
    (log,) = (data_dir / "logs/__transaction_state-0").glob("*.log")
    ours = [line for line in dumped(log) if line.startswith("|   eagleray: ")]
    assert ours
    assert all('"client_address":"127.0.0.1"' in line for line in ours)


def test_log_is_shown_up_to_where_it_is_torn(data_dir):
    path = data_dir / ORDERS / f"{66:020d}.log"
    whole = dumped(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert [line for line in dumped(path) if line.startswith("Found 77 invalid bytes")]
    assert dumped(path)[:-1] == whole[: len(dumped(path)) - 1]


def test_records_that_cannot_be_read_are_passed_over(data_dir):
    path = data_dir / ORDERS / f"{22:020d}.log"
    flip(path, 65)
    shown = dumped(path)
    assert "isvalid: false" in shown[1]
    assert sum(line.startswith("baseOffset") for line in shown) == 4


def test_what_was_cut_off_is_shown_as_a_log(data_dir):
    log = data_dir / ORDERS / f"{66:020d}.log"
    expected = dumped(log)
    for name in (f"{66:020d}.cut", f"{66:020d}.cut.1", f"{66:020d}.torn"):
        assert dumped(log.rename(log.with_name(name))) == expected
        log = log.with_name(name)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_damaged_file_of_kafkas_formats_says_so(data_dir, suffix):
    path = data_dir / ORDERS / f"{66:020d}.{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    (line,) = dumped(path)
    assert "damaged" in line
