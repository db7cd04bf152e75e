"""`ray up` with the committed cluster.yaml, on machines that are reached by ssh. The tests run in this order."""

import json
import re
import shlex

import pytest

from eagleray.pipelines.datasets import expected_totals
from tests.deploy.deployed import ask_ray, ray_processes
from tests.deploy.machines import HERE, REPOSITORY
from tests.support.clusters import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deploy")]

WORDS = ["one", "two", "three"]
TOPIC = "kept"


def test_streams_are_on_every_machine(deployed_cluster):
    """The workers have joined while the head's start command waited for them."""
    status = deployed_cluster.status()
    names = deployed_cluster.ray_nodes()
    assert set(names) == {deployed_cluster.head, *deployed_cluster.workers}
    assert {node["ray_node"] for node in status["nodes"]} == set(names.values())
    assert {node["host"] for node in status["nodes"]} == set(names)
    assert all(node["registered"] for node in status["nodes"])


def test_second_ray_up_changes_nothing(deployed_cluster):
    machines = [deployed_cluster.head, *deployed_cluster.workers]
    before = [ray_processes(deployed_cluster, machine) for machine in machines]
    assert "ray::Controller" in before[0]
    assert all("raylet" in processes for processes in before)
    deployed_cluster.up()
    assert [ray_processes(deployed_cluster, machine) for machine in machines] == before


def test_transactions_by_ray_exec(deployed_cluster):
    lines = shlex.quote("\\n".join(WORDS) + "\\n")
    produce = f"printf {lines} | eagleray produce {TOPIC} --transactional-id loader"
    deployed_cluster.exec(f"eagleray topic create {TOPIC} --partitions 2 && {produce}")
    assert sorted(read(deployed_cluster)) == sorted(WORDS)


def read(cluster):
    return cluster.exec(f"eagleray consume {TOPIC} --max {len(WORDS)} 2>/dev/null").split()


def test_transactions_of_a_kafka_client_on_another_machine(deployed_cluster):
    client = str(HERE / "kafka_client.py")
    seen = deployed_cluster.machines.run("python", client, deployed_cluster.bootstrap, "from-outside").stdout.split()
    assert seen == sorted(f"committed-{number}" for number in range(100))


def test_job_on_a_worker_reads_what_was_committed(deployed_cluster):
    (worker,) = deployed_cluster.workers
    printed = deployed_cluster.on(deployed_cluster.head, f"python {HERE}/read_on_worker.py {worker} {TOPIC} 3")
    assert printed.splitlines()[-1].split() == [worker, *sorted(WORDS)]


JOB = """
name = "amounts"
checkpoint = "/tmp/amounts"

[source]
topics = ["orders"]
value_schema = "order_id BIGINT, amount_cents BIGINT"

[transform]
sql = "SELECT order_id, amount_cents FROM input"

[sink]
topic = "amounts"
key = "order_id"
"""


def test_pipeline_of_spark_on_these_machines(deployed_cluster):
    """Its executor is on whichever machine Ray chooses, and writes to the broker on the head."""
    deployed_cluster.on(deployed_cluster.head, f"echo {shlex.quote(JOB)} > amounts.toml")
    made = deployed_cluster.exec("eagleray pipeline generate --topic orders --rows 2000 --seed 3 --json 2>/dev/null")
    assert json.loads(made)["records"] == 2000
    run = "eagleray topic create amounts --partitions 2 && eagleray pipeline run amounts.toml --json 2>/dev/null"
    batches = [json.loads(line) for line in deployed_cluster.exec(run).splitlines() if line.startswith("{")]
    assert sum(batch["rows_out"] for batch in batches) == 2000
    rows = deployed_cluster.exec("eagleray consume amounts --max 2000 2>/dev/null").splitlines()
    assert sum(json.loads(row)["amount_cents"] for row in rows) == expected_totals(3, 2000).amount_cents


def test_connection_without_the_token_is_refused(deployed_cluster):
    assert "local.cluster.node" in ask_ray(deployed_cluster).stdout
    refused = ask_ray(deployed_cluster, token="0" * 64)
    assert refused.returncode != 0
    assert "local.cluster.node" not in refused.stdout
    assert "token" in refused.stderr


def test_port_that_the_table_does_not_name_is_closed(deployed_cluster):
    named = ports_of_the_table()
    for machine in (deployed_cluster.head, *deployed_cluster.workers):
        listening = ports_open_to_others(deployed_cluster.on(machine, "ss -Hltn"))
        assert listening, machine
        assert listening <= named, (machine, sorted(listening - named))


def ports_of_the_table():
    """The ports in the first column of the table in docs/deploy.md."""
    rows = re.findall(r"^\| (\d+)(?:-(\d+))? \|", (REPOSITORY / "docs" / "deploy.md").read_text(), re.MULTILINE)
    return {port for low, high in rows for port in range(int(low), int(high or low) + 1)}


def ports_open_to_others(sockets):
    places = [line.split()[3].rpartition(":") for line in sockets.splitlines()]
    return {int(port) for address, _, port in places if "127.0.0.1" not in address and address != "[::1]"}


def test_streams_of_a_lost_machine_wait_for_it(deployed_cluster):
    """Another machine has not their data: what was started there in their name would be empty."""
    (worker,) = deployed_cluster.workers
    options = "--name elsewhere --layout colocated --leaders 1 --listen 0.0.0.0:0"
    start = f"eagleray start {options} --address auto --detach --data-dir ~/eagleray/elsewhere"
    deployed_cluster.on(worker, f"{start} && eagleray topic create there --name elsewhere")
    find = "eagleray status --name elsewhere --address auto --json"
    assert json.loads(deployed_cluster.exec(find))["topics"] == [{"name": "there", "partitions": 1}]

    deployed_cluster.on(worker, "raylet=$(pgrep -x raylet); kill -9 $raylet $(pgrep -P $raylet)")
    deployed_cluster.until_lost(worker)
    assert "no node of cluster 'elsewhere' answers" in deployed_cluster.exec(find, check=False)
    assert "elsewhere" not in deployed_cluster.on(deployed_cluster.head, "ls ~/eagleray").split()

    # The head starts Ray again on the worker, and Ray the streams where they are.
    deployed_cluster.until_joined()
    until(lambda: '"topics"' in deployed_cluster.exec(find, check=False), "the streams are there again")
    assert json.loads(deployed_cluster.exec(find))["topics"] == [{"name": "there", "partitions": 1}]


def test_committed_records_are_there_after_down_and_up(deployed_cluster):
    deployed_cluster.exec("eagleray stop")
    deployed_cluster.down()
    assert not re.search("ray|gcs", deployed_cluster.on(deployed_cluster.head, "ps -e -o comm= | sort -u"))
    deployed_cluster.up()
    assert sorted(read(deployed_cluster)) == sorted(WORDS)
