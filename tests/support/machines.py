"""Several machines on one: Ray nodes at loopback addresses of their own, which tests kill and bring back.

A process belongs to a machine by a variable in its environment, which it hands down to all that it starts: so a machine
is killed whole, with workers whose raylet is gone already, and nothing is left behind.
"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import psutil
import pytest
import ray

import eagleray
from tests.support.clusters import SETTINGS, closed_port, until
from tests.support.processes import children_of, has_name, variable_of

DEADLINE_S = 300
HEAD = 0
TOKEN = os.path.expanduser("~/.ray/auth_token")
MARK = "EAGLERAY_TEST_MACHINE"
OBJECT_STORE_BYTES = 100 * 1024 * 1024
SYSTEM_CONFIG = {"worker_niceness": 0, "agent_register_timeout_ms": DEADLINE_S * 1000}
ENVIRONMENT = {
    # A machine whose processes are gone refuses connections, which is known within three seconds, as with cluster.yaml.
    # One that is slow has more time to answer than there: a machine that runs tests may stall for seconds.
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "3",
    # At any address but 127.0.0.1 Ray listens to the whole network; nobody is let in without the token.
    "RAY_AUTH_MODE": "token",
}
# On a busy machine Ray's processes take longer to start than the half a minute that Ray gives them.
PATIENT_RAY = """
from eagleray.actors.cluster.embedded_ray import longer_start_timeout
from ray.scripts.scripts import main
with longer_start_timeout():
    main()
"""
ANY_PORT = (
    "--object-manager-port=0",
    "--node-manager-port=0",
    "--runtime-env-agent-port=0",
    "--dashboard-agent-grpc-port=0",
    "--dashboard-agent-listen-port=0",
    "--metrics-export-port=0",
)


def address_of(number):
    """The address of a machine: none has 127.0.0.1, which Ray replaces with that of the network card."""
    return f"127.0.0.{2 + number}"


class Machines:
    """A Ray cluster whose nodes stand for machines; the first is the head, and this process is a driver on it.

    Owns: the processes of all machines, and a folder for their temporary files. `close` ends and removes all of them.
    `environment` is for all machines, and `head_environment` for the head alone.
    """

    def __init__(self, environment=None, head_environment=None):
        self._added = environment or {}
        self._added_to_head = head_environment or {}
        # Sockets have short names, and Ray puts them deep into this directory.
        self._folder = tempfile.mkdtemp(prefix="er-")
        self._count = 0
        self.head = HEAD
        self.address = None
        if not os.path.exists(TOKEN):
            _ray("get-auth-token", "--generate", env={**os.environ, **ENVIRONMENT})

    @property
    def addresses(self):
        return [address_of(number) for number in range(self._count)]

    def add_machine(self):
        """Start one machine more, and return its number."""
        self._count += 1
        self.start_machine(self._count - 1)
        return self._count - 1

    def start_machine(self, number):
        """Start a machine, for the first time or again: Ray gives it another id then, at the same address."""
        assert not self.processes_of(number), f"machine {number} runs"
        folder = os.path.join(self._folder, str(number))
        self._keep_logs(number)
        shutil.rmtree(folder, ignore_errors=True)
        which = self._as_head() if number == self.head else (f"--address={self.address}",)
        _ray(
            *("start", *which, *ANY_PORT),
            f"--node-ip-address={address_of(number)}",
            f"--temp-dir={folder}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            "--num-cpus=2",
            "--disable-usage-stats",
            env=self._environment(number),
        )
        if number == self.head:
            with open(os.path.join(folder, "ray_current_cluster")) as file:
                self.address = file.read().strip()

    def _keep_logs(self, number):
        """Put aside what was logged, which may be what somebody wants to know afterwards; the rest takes much room."""
        for logs in glob.glob(f"{self._folder}/{number}/session_*_*/logs"):
            os.rename(logs, tempfile.mkdtemp(prefix=f"logs-{number}-", dir=self._folder))

    def move_head(self, number):
        """Let another machine be the head, once all have ended; it has another address."""
        assert not any(self.processes_of(each) for each in range(self._count)), "there is a head"
        self.head, self.address = number, None

    def _as_head(self):
        # After its death the head comes back where the others look for it.
        port = "0" if self.address is None else self.address.rpartition(":")[2]
        return (
            "--head",
            f"--port={port}",
            # It cannot be left out, and by default every Ray of this host wants the same port.
            f"--ray-client-server-port={closed_port()}",
            "--include-dashboard=false",
            f"--system-config={json.dumps(SYSTEM_CONFIG)}",
        )

    def _environment(self, number):
        inherited = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        return {
            **inherited,
            **ENVIRONMENT,
            **self._added,
            **(self._added_to_head if number == self.head else {}),
            MARK: self._mark(number),
        }

    def _mark(self, number):
        return f"{self._folder}/{number}"

    # A cluster on them

    def start_cluster(self, name, data_dir, **options):
        """Start a cluster with one node on each machine; the test closes it."""
        options = {"layout": "colocated", "leaders": 1, "config": SETTINGS, **options}
        return eagleray.start(str(data_dir), name=name, address=self.address, **options)

    def run(self, name, *command):
        """Run a command of the program on a cluster, one that has to succeed, and return how it ended."""
        command = (sys.executable, "-m", "eagleray", *command, "--name", name, "--address", self.address)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr}"
        return ended

    # What there is

    def log_folders(self):
        """Where Ray has logged, in all its starts on all machines."""
        return sorted([*glob.glob(f"{self._folder}/logs-*"), *glob.glob(f"{self._folder}/[0-9]*/session_*_*/logs")])

    def processes_of(self, number):
        """Every process of a machine, also those whose parents have ended.

        Some of Ray's helpers write their names over their environment; these are known by their parents.
        """
        marked = [process for process in psutil.process_iter() if variable_of(process, MARK) == self._mark(number)]
        return [*{*marked, *(child for process in marked for child in children_of(process, recursive=True))}]

    def until_joined(self, *numbers):
        """Wait until machines are there, as Ray sees it; this process has to be connected."""
        wanted = {address_of(number) for number in numbers}
        until(lambda: wanted <= self.alive(), f"{wanted} have joined")

    def until_lost(self, number):
        """Wait until Ray has seen that a machine is gone."""
        until(lambda: address_of(number) not in self.alive(), f"machine {number} is given up")

    def alive(self):
        """The addresses of the machines that Ray takes for alive."""
        return {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}

    # Harm

    def kill_raylet(self, number):
        """End a machine's raylet alone; what it had started finds out by itself."""
        raylets = self._raylets_of(number)
        assert len(raylets) == 1, raylets
        _kill(raylets)

    def _raylets_of(self, number):
        return [process for process in self.processes_of(number) if has_name(process, "raylet")]

    def kill_machine(self, number):
        """End everything that runs on a machine, at once; its disk stays. Returns when that was, by `time.monotonic`.

        Without the head, Ray ends all drivers and all other machines after a minute, unless they were told to wait for
        it longer: this process too, if it is a driver.
        """
        assert number != self.head or not ray.is_initialized(), "Ray would end this process"
        assert self.processes_of(number), f"machine {number} does not run"
        killed_at_s = time.monotonic()
        self._end(number)
        return killed_at_s

    def _end(self, number):
        while processes := self.processes_of(number):
            _kill(processes)

    def revive(self, number):
        """Start a machine again whose raylet is gone, also where some of Ray's helpers are left of it."""
        if not self._raylets_of(number):
            self._end(number)
            self.start_machine(number)

    def close(self):
        """End all machines, and remove their temporary files."""
        for number in reversed(range(self._count)):
            self._end(number)
        shutil.rmtree(self._folder)


def _ray(*command, env):
    command = (sys.executable, "-c", PATIENT_RAY, *command)
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=DEADLINE_S, check=True)


def _kill(processes):
    for process in processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    psutil.wait_procs(processes, timeout=DEADLINE_S)


@contextmanager
def ray_machines(count, **environments):
    """A Ray cluster of this many machines on this one; all of it is gone in the end, however the test ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        machines = Machines(**environments)
        try:
            for _ in range(count):
                machines.add_machine()
            yield machines
        finally:
            ray.shutdown()
            machines.close()


def three_machines(**environments):
    """The least that a quorum is made of."""
    return ray_machines(3, **environments)
