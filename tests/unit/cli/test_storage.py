"""`eagleray storage`: what it prints, and how it ends."""

import json
import shutil

import pytest

from eagleray.offline.layout import lock_partition
from tests.support.cli_cluster import fail, invoke, succeed
from tests.support.data_directories import flip, state_of, write_directory

ORDERS = "logs/orders-0"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storage")
    write_directory(folder / "killed", killed=True)
    return folder


@pytest.fixture
def data_dir(written, tmp_path):
    return shutil.copytree(written / "killed", tmp_path / "data")


def finds_problems(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    return result


def test_whole_directory_ends_with_0(data_dir):
    result = succeed("storage", "verify", data_dir)
    assert result.stdout == "5 partitions read: nothing is wrong\n"
    assert f"{data_dir}: nodes 0, 1, of cluster " in result.stderr
    (found,) = json.loads(succeed("storage", "verify", data_dir, "--json").stdout)
    assert (found["whole"], found["findings"], found["nodes"]) == (True, [], [0, 1])


def test_damaged_batch_is_printed_with_file_offset_and_command(data_dir):
    path = data_dir / ORDERS / f"{22:020d}.log"
    flip(path)
    result = finds_problems("storage", "verify", data_dir)
    assert f"damage: {path}, offset " in result.stdout
    assert "problems found" in result.stdout or "1 problem found" in result.stdout
    (found,) = json.loads(finds_problems("storage", "verify", data_dir, "--partition", "orders-0", "--json").stdout)
    assert str(path) in {each["path"] for each in found["findings"]}


def test_partition_that_a_node_has_open_is_named_and_not_called_whole(data_dir):
    lock = lock_partition(str(data_dir), "orders-0")
    result = finds_problems("storage", "verify", data_dir)
    lock.release()
    assert "a running node has them open: orders-0" in result.stderr


def test_partition_that_is_not_there_is_a_usage_error(data_dir):
    assert "expected TOPIC-NUMBER" in fail("storage", "verify", data_dir, "--partition", "orders")
    assert "has no directory logs/orders-9" in fail("storage", "verify", data_dir, "--partition", "orders-9")
    assert "expected the --data-dir" in fail("storage", "verify", data_dir.parent)
    assert invoke("storage", "verify").exit_code == 2


def test_repair_does_nothing_before_it_is_told_to(data_dir):
    path = data_dir / ORDERS / f"{22:020d}.index"
    flip(path)
    before = state_of(data_dir)
    result = finds_problems("storage", "repair", data_dir, "--partition", "orders-0")
    assert f"would be made anew: {path}" in result.stdout
    assert "nothing was changed; --yes does it" in result.stderr
    assert state_of(data_dir) == before

    result = succeed("storage", "repair", data_dir, "--partition", "orders-0", "--yes")
    assert f"made anew: {path}" in result.stdout
    assert f"{path.name}.damaged" in result.stdout
    assert "orders-0 needs no repair" in succeed("storage", "repair", data_dir, "--partition", "orders-0").stdout


def test_loss_is_shown_then_accepted(data_dir):
    flip(data_dir / ORDERS / f"{66:020d}.log")
    (data_dir / ORDERS / "segment-bookmark").unlink(missing_ok=True)
    command = ("storage", "repair", data_dir, "--partition", "orders-0")
    before = state_of(data_dir)
    for options in ((), ("--accept-loss",), ("--yes",)):
        result = finds_problems(*command, *options)
        assert "needs a person: orders-0 goes on without everything from offset " in result.stdout
        assert state_of(data_dir) == before
    loss = json.loads(finds_problems(*command, "--json").stdout)["loss"]
    result = succeed(*command, "--accept-loss", "--yes")
    assert f"loss accepted: orders-0 goes on without everything from offset {loss['offset']} on" in result.stdout
    assert (data_dir / ORDERS / "accept-loss").read_text() == f"{loss['offset']}\n"


def test_repair_is_refused_while_a_node_has_the_partition_open(data_dir):
    flip(data_dir / ORDERS / f"{22:020d}.index")
    lock = lock_partition(str(data_dir), "orders-0")
    line = fail("storage", "repair", data_dir, "--partition", "orders-0", "--yes")
    lock.release()
    assert "a running node has orders-0 open" in line
    assert "nothing was changed" in line


def test_strays_are_listed_adopted_and_removed(data_dir):
    assert "there are no strays" in succeed("storage", "strays", "list", data_dir).stderr
    whole = (data_dir / ORDERS / "partition.metadata").read_bytes()
    flip(data_dir / ORDERS / "partition.metadata", 3)
    shutil.copytree(data_dir / ORDERS, data_dir / "logs/looked-at")
    listed = json.loads(finds_problems("storage", "strays", "list", data_dir, "--json").stdout)
    assert {each["name"]: bool(each.get("adopted_as")) for each in listed} == {"orders-0": True, "looked-at": False}
    assert "orders-0" in finds_problems("storage", "strays", "list", data_dir).stdout

    before = state_of(data_dir)
    assert "--yes does it" in succeed("storage", "strays", "adopt", data_dir, "orders-0").stderr
    assert "--yes does it" in succeed("storage", "strays", "remove", data_dir, "looked-at").stderr
    assert "is not certain" in fail("storage", "strays", "adopt", data_dir, "looked-at", "--yes")
    assert "is no stray" in fail("storage", "strays", "remove", data_dir, "payments-0", "--yes")
    assert state_of(data_dir) == before

    assert "again" in succeed("storage", "strays", "adopt", data_dir, "orders-0", "--yes").stdout
    assert "removed" in succeed("storage", "strays", "remove", data_dir, "looked-at", "--yes").stdout
    assert (data_dir / ORDERS / "partition.metadata").read_bytes() == whole
    assert not (data_dir / "logs/looked-at").exists()
    assert (data_dir / "logs/payments-0").exists()


def test_dump_names_each_file(data_dir):
    printed = succeed("storage", "dump", data_dir / ORDERS).stdout
    assert f"Dumping {data_dir / ORDERS}/{0:020d}.log\nLog starting offset: 0\nbaseOffset: 0 " in printed
    result = succeed("storage", "dump", data_dir / "nodes")
    assert "node_id: 0" in result.stdout
    assert f"Ignoring unknown file {data_dir}/nodes/0.lock" in result.stderr
    assert "by its name" in fail("storage", "dump", data_dir / "nodes/0.lock")
    assert invoke("storage", "dump", data_dir / "absent.log").exit_code == 1


def test_doctor_examines_a_directory(data_dir):
    assert f"{data_dir}: 5 partitions read: nothing is wrong with them" in succeed("doctor", data_dir).stdout
    flip(data_dir / "nodes/0.identity")
    result = finds_problems("doctor", data_dir)
    assert "It says whose data directory this is" in result.stdout
    assert not json.loads(finds_problems("doctor", data_dir, "--json").stdout)["healthy"]
    assert "is no data directory" in fail("doctor", data_dir.parent)
