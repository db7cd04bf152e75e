"""Finding one of two clusters on a machine, each on a Ray of its own: by programs and by commands, by one rule."""

import json
import subprocess
import sys

import pytest

from tests.support.cli_cluster import run_process
from tests.support.cli_processes import Machine

pytestmark = pytest.mark.slow

SMALL = ("--layout", "colocated", "--leaders", 1)
DEADLINE_S = 120
PROGRAM = """
import json, sys
import eagleray

def look(name, address):
    try:
        with eagleray.connect(name, address=address) as cluster:
            return [cluster.name, *cluster.admin.list_topics()]
    except eagleray.errors.EaglerayError as error:
        return [type(error).__name__, error.message]

print(json.dumps([look(*each) for each in json.loads(sys.argv[1])]))
"""


@pytest.fixture(scope="module")
def machine():
    """Two clusters, each with a topic that says which it is."""
    machine = Machine()
    try:
        machine.bootstrap = {}
        for name in ("first", "second"):
            data_dir = ("--data-dir", f"{machine.data_dir}-{name}", "--name", name)
            _, machine.bootstrap[name] = machine.start(*SMALL, *data_dir)
            machine.run("topic", "create", f"of-{name}", "--name", name)
        yield machine
    finally:
        machine.close()


def connect(machine, name=None, address=None):
    """What a program gets that connects."""
    (found,) = connect_in_turn(machine, (name, address))
    return found


def connect_in_turn(machine, *wanted):
    """What a program gets that connects again and again, and that it printed nothing else."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(wanted)]
    ended = subprocess.run(
        command, env=machine.environment, capture_output=True, timeout=DEADLINE_S, check=False, text=True
    )
    assert ended.stderr == ""
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", ["first", "second"])
def test_program_and_command_find_a_cluster_by_its_name(machine, name):
    assert connect(machine, name) == [name, f"of-{name}"]
    assert [topic["name"] for topic in machine.json("topic", "list", "--name", name)] == [f"of-{name}"]


def test_program_connects_to_one_cluster_after_the_other(machine):
    found = connect_in_turn(machine, ("first", None), ("second", None), ("first", None))
    assert found == [["first", "of-first"], ["second", "of-second"], ["first", "of-first"]]


def test_program_and_command_are_told_of_both_clusters_without_a_name(machine):
    addresses = {name: machine.json("status", "--name", name)["ray_address"] for name in ("first", "second")}
    error, message = connect(machine)
    assert error == "ClusterNotFound"
    for name, address in addresses.items():
        assert f"{name} (name='{name}', address='{address}')" in message
    ended = run_process("status", environment=machine.environment)
    assert ended.returncode == 1
    for name, address in addresses.items():
        assert f"{name} (--name {name} --address {address})" in ended.stderr.decode()
    # What was said chooses.
    assert connect(machine, address=addresses["second"]) == ["second", "of-second"]
    assert connect(machine, "first", addresses["first"]) == ["first", "of-first"]
    error, message = connect(machine, "first", addresses["second"])
    assert error == "ClusterNotFound"
    assert "there is second (name='second')" in message


def test_contact_file_leads_to_its_cluster_without_ray(machine, tmp_path):
    path = str(tmp_path / "contact")
    machine.run("contact", path, "--name", "second")
    assert connect(machine, address=path)[1:] == ["of-second"]
    assert [topic["name"] for topic in machine.json("topic", "list", "--address", path)] == ["of-second"]


def test_port_of_kafka_clients_is_no_address_of_ray(machine):
    error, message = connect(machine, address=machine.bootstrap["first"])
    assert error == "ClusterNotFound"
    assert "is not the head of a Ray cluster" in message
