"""A cluster that `ray up` has started from the committed cluster.yaml, and what a test does with it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.machines import REPOSITORY, Machines

JOIN_S = 300
_OUTPUT_BEGINS = "--- output ---"


def configuration(machines: Machines, wheel: Path) -> dict[str, Any]:
    """The committed cluster.yaml, with other machines and another key, and the wheel where the test has built it.

    Ray remembers what it runs, as the comment in the file proposes.
    """
    config: dict[str, Any] = yaml.safe_load((REPOSITORY / "cluster.yaml").read_text())
    head, *workers = machines.addresses
    config["provider"] |= {"head_ip": head, "worker_ips": workers}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(machines.key)}
    ray, broker = config["head_start_ray_commands"]
    assert "--machines 3" in broker
    assert "ray start --head" in ray
    broker = broker.replace("--machines 3", f"--machines {len(machines.addresses)}")
    ray = ray.replace("ray start --head", f"{memory_of_ray()} ray start --head")
    config["head_start_ray_commands"] = [ray, broker]
    mounts = config["file_mounts"]
    (there,) = [there for there, here in mounts.items() if here == f"dist/{wheel.name}"]
    mounts[there] = str(wheel)
    return config


def memory_of_ray() -> str:
    """The line of the comment in cluster.yaml by which Ray remembers what it runs."""
    (line,) = re.findall(r"^#   (export RAY_gcs_storage=.*;)$", (REPOSITORY / "cluster.yaml").read_text(), re.MULTILINE)
    return str(line)


class DeployedCluster:
    """A running cluster: its machines, its head, and its commands."""

    def __init__(self, machines: Machines, wheel: Path) -> None:
        self.machines = machines
        self.head, *self.workers = machines.addresses
        self.config = configuration(machines, wheel)
        self._file = machines.folder / "cluster.yaml"
        self._file.write_text(yaml.safe_dump(self.config))
        # As a person does it who has no token yet.
        machines.run("ray", "get-auth-token", "--generate")

    @property
    def bootstrap(self) -> str:
        """Where Kafka's clients begin."""
        return f"{self.head}:9092"

    def up(self) -> None:
        """Start what is not running."""
        self.machines.run("ray", "up", "--yes", "--no-config-cache", str(self._file))

    def down(self) -> None:
        """Stop everything."""
        self.machines.run("ray", "down", "--yes", str(self._file))

    def exec(self, command: str, *, check: bool = True) -> str:
        """Run a command on the head by `ray exec`, and return what it printed."""
        marked = f"echo; echo {_OUTPUT_BEGINS}; {command}"
        ended = self.machines.run("ray", "exec", "--no-config-cache", str(self._file), marked, check=check)
        output = ended.stdout.replace("\r\n", "\n").rpartition(f"\n{_OUTPUT_BEGINS}\n")[2]
        return output.partition("Shared connection to")[0]

    def status(self) -> dict[str, Any]:
        """What `eagleray status` says."""
        found: dict[str, Any] = json.loads(self.exec("eagleray status --json"))
        return found

    def ray_nodes(self) -> dict[str, str]:
        """The machines that have joined Ray, and what Ray calls each of them."""
        script = "import ray, json; ray.init('auto', log_to_driver=False); print(json.dumps(ray.nodes(), default=str))"
        printed = self.on(self.head, f'python -c "{script}"').splitlines()[-1]
        return {node["NodeManagerAddress"]: node["NodeID"] for node in json.loads(printed) if node["Alive"]}

    def on(self, address: str, command: str) -> str:
        """Run a command on one of the machines by ssh, and return what it printed."""
        return self.machines.ssh(address, command).stdout

    def until_joined(self) -> None:
        """Wait until the head has started Ray on all workers."""
        self._until(lambda nodes: nodes == {self.head, *self.workers})

    def until_lost(self, address: str) -> None:
        """Wait until Ray knows that a machine is gone."""
        self._until(lambda nodes: address not in nodes)

    def _until(self, is_so: Callable[[set[str]], bool]) -> None:
        given_up_at = time.monotonic() + JOIN_S
        while not is_so(nodes := set(self.ray_nodes())):
            assert time.monotonic() < given_up_at, f"Ray knows of {sorted(nodes)} alone:\n{self._what_the_head_did()}"
            time.sleep(1)

    def _what_the_head_did(self) -> str:
        return self.on(self.head, "tail -n 100 /tmp/ray/session_latest/logs/monitor.*")


def ray_processes(cluster: DeployedCluster, address: str) -> str:
    """The processes of Ray on a machine, with their numbers: the same text means the same processes."""
    return cluster.on(address, "ps -e -o pid=,comm= | grep -E 'gcs_server|raylet|ray::' | grep -v IDLE")


def ask_ray(cluster: DeployedCluster, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """Ask Ray something from the machine that launched it, with the token that is there or with another."""
    settings = ["RAY_AUTH_MODE=token", *([] if token is None else [f"RAY_AUTH_TOKEN={token}"])]
    command = ("timeout", "120", "ray", "status", "--address", f"{cluster.head}:6379")
    return cluster.machines.run("env", *settings, *command, check=False)
