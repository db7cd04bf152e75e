"""cluster.yaml and deploy/: what they name is there, and they agree with each other and with the command line."""

import importlib.util
import json
import re
import shlex
import tomllib
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml

from eagleray.cli.app import app

REPOSITORY = Path(__file__).parents[2]
TEXT = (REPOSITORY / "cluster.yaml").read_text()
CLUSTER = yaml.safe_load(TEXT)
CLAIM, SERVICE, KUBERAY = yaml.safe_load_all((REPOSITORY / "deploy" / "kuberay.yaml").read_text())
DOCKERFILE = (REPOSITORY / "deploy" / "Dockerfile").read_text()
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]

HEAD = KUBERAY["spec"]["headGroupSpec"]
(WORKERS,) = KUBERAY["spec"]["workerGroupSpecs"]
(HEAD_CONTAINER,) = HEAD["template"]["spec"]["containers"]
POST_START = HEAD_CONTAINER["lifecycle"]["postStart"]["exec"]["command"][-1]

RAY_HEAD, BROKER = CLUSTER["head_start_ray_commands"]
(RAY_WORKER,) = CLUSTER["worker_start_ray_commands"]


def ray_options(command):
    return dict(re.findall(r"--([a-z-]+)=(\S+?);?(?= |$)", command))


def broker_options(command):
    """What `eagleray start` takes the options of a command for; raises where it would refuse them."""
    arguments = re.search(r"eagleray start (.*?)(?:&&|$)", command, re.DOTALL)[1]
    start = typer.main.get_command(app).commands["start"]
    return start.make_context("start", shlex.split(arguments)).params


# cluster.yaml


def schema():
    """The launcher's own, found without loading Ray."""
    (folder,) = importlib.util.find_spec("ray").submodule_search_locations
    return json.loads((Path(folder) / "autoscaler" / "ray-schema.json").read_text())


def aws_variant():
    """What the file is when its commented block is put in the place of the provider and the key."""
    block = TEXT.partition("# On AWS,")[2].partition("\n#\n")[2].partition("\n\n")[0]
    variant = yaml.safe_load(re.sub("^# ?", "", block, flags=re.MULTILINE))
    return CLUSTER | variant


@pytest.mark.parametrize("config", [CLUSTER, aws_variant()], ids=["local", "aws"])
def test_launcher_takes_the_file(config):
    jsonschema.validate(config, schema())


def test_aws_variant_names_node_types_that_it_has():
    variant = aws_variant()
    assert variant["provider"]["type"] == "aws"
    assert variant["head_node_type"] in variant["available_node_types"]
    assert variant["max_workers"] >= sum(
        node_type.get("max_workers", 0) for node_type in variant["available_node_types"].values()
    )


def test_wheel_is_that_of_this_version():
    wheel = f"eagleray-{VERSION}-py3-none-any.whl"
    assert CLUSTER["file_mounts"][f"~/eagleray/{wheel}"] == f"dist/{wheel}"
    for text in ("\n".join(CLUSTER["setup_commands"]), DOCKERFILE):
        assert set(re.findall(r"eagleray-[^\s\"]*?\.whl", text)) == {wheel}


def test_copied_files_are_there():
    missing = [
        here
        for here in CLUSTER["file_mounts"].values()
        if not here.startswith(("~", "dist/")) and not (REPOSITORY / here).exists()
    ]
    assert missing == []


def test_every_machine_has_the_token_and_asks_for_it():
    assert CLUSTER["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert any("export RAY_AUTH_MODE=token" in command for command in CLUSTER["setup_commands"])
    assert KUBERAY["spec"]["authOptions"] == {"mode": "token"}


def test_workers_listen_where_the_head_does():
    head, worker = ray_options(RAY_HEAD), ray_options(RAY_WORKER)
    assert worker.pop("address") == f"$RAY_HEAD_IP:{head['port']}"
    assert worker.items() <= head.items()
    assert {"node-manager-port", "object-manager-port", "min-worker-port", "max-worker-port"} <= set(worker)


def ports_of(options):
    """The ports that a start of Ray names, each end of a range for itself."""
    return [int(value) for key, value in options.items() if key == "port" or key.endswith("-port")]


def test_no_port_is_given_twice():
    broker = broker_options(BROKER)
    low, high = map(int, broker["node_ports"].split("-"))
    metrics = [int(port) for port in re.findall(r"_METRIC_PORT=(\d+)", RAY_HEAD)]
    options = ray_options(RAY_HEAD)
    workers = range(int(options.pop("min-worker-port")), int(options.pop("max-worker-port")) + 1)
    ports = [*ports_of(options), *metrics, int(broker["listen"].rpartition(":")[2]), *range(low, high + 1), *workers]
    assert len(metrics) == 2
    assert len(set(ports)) == len(ports)


def test_broker_is_started_as_the_command_line_wants_it():
    options = broker_options(BROKER)
    assert options["unless_running"]
    assert options["detach"]
    assert options["address"] == "auto"


# deploy/kuberay.yaml


def test_kubernetes_starts_the_broker_with_the_same_options():
    ours, theirs = broker_options(BROKER), broker_options(POST_START)
    differing = {key for key in ours if ours[key] != theirs[key]}
    # Of the pods, the head alone has a volume.
    assert differing == {"data_dir", "machines", "wait"}
    assert theirs["machines"] is None


def test_data_are_on_the_claimed_volume():
    (mount,) = HEAD_CONTAINER["volumeMounts"]
    (volume,) = HEAD["template"]["spec"]["volumes"]
    assert broker_options(POST_START)["data_dir"] == mount["mountPath"]
    assert mount["name"] == volume["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == CLAIM["metadata"]["name"]


def test_service_leads_to_the_listener():
    (port,) = SERVICE["spec"]["ports"]
    listening = int(broker_options(POST_START)["listen"].rpartition(":")[2])
    container_ports = {each["name"]: each["containerPort"] for each in HEAD_CONTAINER["ports"]}
    assert port["port"] == container_ports[port["targetPort"]] == listening
    assert SERVICE["spec"]["selector"] == {"ray.io/cluster": KUBERAY["metadata"]["name"], "ray.io/node-type": "head"}


def test_kubernetes_uses_the_ports_and_health_checks_of_cluster_yaml():
    for parameters, command in ((HEAD["rayStartParams"], RAY_HEAD), (WORKERS["rayStartParams"], RAY_WORKER)):
        named = {key: value for key, value in parameters.items() if key.endswith("-port")}
        assert named
        assert named.items() <= ray_options(command).items()
    checks = dict(re.findall(r"(RAY_health_check_\w+)=(\d+)", RAY_HEAD))
    assert len(checks) == 3
    assert {each["name"]: each["value"] for each in HEAD_CONTAINER["env"]} == checks


def reconnect_timeout_of(command):
    """How long a machine goes on without the head."""
    return dict(re.findall(r"(RAY_gcs_rpc_server_reconnect_timeout_s)=(\d+)", command))


def test_all_machines_wait_for_the_head_equally_long():
    assert reconnect_timeout_of(RAY_HEAD)
    assert reconnect_timeout_of(RAY_HEAD) == reconnect_timeout_of(RAY_WORKER)
    (container,) = WORKERS["template"]["spec"]["containers"]
    assert {each["name"]: each["value"] for each in container["env"]} == reconnect_timeout_of(RAY_WORKER)


def test_streams_are_on_as_many_machines_as_the_file_names():
    options = broker_options(BROKER)
    provider = CLUSTER["provider"]
    assert int(options["machines"]) == len([provider["head_ip"], *provider["worker_ips"]])
    assert options["wait"] > 0


def test_ray_is_the_pinned_one_everywhere():
    (pinned,) = re.findall(r"^ray==(\S+)", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    assert KUBERAY["spec"]["rayVersion"] == pinned
    assert f"FROM rayproject/ray:{pinned}-py" in DOCKERFILE


def test_all_pods_run_one_image():
    images = {HEAD_CONTAINER["image"], *(each["image"] for each in WORKERS["template"]["spec"]["containers"])}
    (image,) = images
    assert image in DOCKERFILE
    assert image.endswith(f":{VERSION}")
