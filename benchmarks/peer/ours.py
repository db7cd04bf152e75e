"""Our own broker as a process of its own, started as a user starts it, with the same handles as the real Kafka's.

with Ours(directory, layout="colocated") as ours:
    print(ours.bootstrap_servers, ours.pid)
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil

from benchmarks.peer.readiness import wait_for_metadata

READY = b"bootstrap.servers="
START_SECONDS = 60
STOP_SECONDS = 60


class Ours:
    """`eagleray start` in the foreground, on a Ray of its own, on loopback.

    Owns the process, the Ray that it starts, and a short-named directory for Ray's sockets, which goes with it. The
    data stay in the directory that the caller gave.
    """

    def __init__(
        self, directory: str | Path, layout: str = "colocated", settings: Mapping[str, str] | None = None
    ) -> None:
        self.name = layout
        self._directory = Path(directory)
        self._layout = layout
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary = ""
        self.bootstrap_servers = ""
        self.start_seconds = 0.0

    @property
    def pid(self) -> int:
        assert self._process is not None, "the cluster has not been started"
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which commands of `eagleray` find this cluster and no other."""
        hidden = ("EAGLERAY_ADDRESS", "RAY_ADDRESS")
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        return inherited | {"EAGLERAY_HOME": f"{self._temporary}/home", "TMPDIR": self._temporary}

    def _record(self) -> dict[str, str]:
        """What `eagleray start` notes for the commands that come after it."""
        (record,) = Path(self._temporary, "home", "clusters").glob("default@*.json")
        return dict(json.loads(record.read_text()))

    @property
    def ray_address(self) -> str:
        """Where the Ray of the cluster can be joined."""
        return self._record()["address"]

    @property
    def program_environment(self) -> dict[str, str]:
        """The environment of a program that joins the Ray of the cluster; Ray wants to be told how it lets in."""
        mode = self._record().get("ray_auth_mode")
        return self.environment | ({"RAY_AUTH_MODE": mode} if mode else {})

    def status(self) -> dict[str, object]:
        """What `eagleray status` says."""
        command = [sys.executable, "-m", "eagleray", "status", "--json"]
        output = subprocess.run(command, env=self.environment, capture_output=True, check=True).stdout
        return dict(json.loads(output))

    def broker_pids(self) -> list[int]:
        """The nodes, and the process that keeps them."""
        nodes = self.status()["nodes"]
        assert isinstance(nodes, list)
        return [self.pid, *(node["pid"] for node in nodes)]

    def platform_pids(self) -> list[int]:
        """The processes of Ray itself, which a Ray cluster has anyway."""
        ours = set(self.broker_pids())
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True) if child.pid not in ours]

    def __enter__(self) -> Self:
        # Sockets have short names, and Ray puts them deep into a directory for temporary files.
        self._temporary = tempfile.mkdtemp(prefix="er-", dir="/tmp")
        began = time.perf_counter()
        try:
            self._start()
            wait_for_metadata(self.bootstrap_servers, START_SECONDS, lambda: None)
        except BaseException:
            self.close()
            raise
        self.start_seconds = time.perf_counter() - began
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _start(self) -> None:
        place = ("--data-dir", str(self._directory / "data"), "--listen", "127.0.0.1:0", "--layout", self._layout)
        settings = [part for name, value in self._settings.items() for part in ("--config", f"{name}={value}")]
        command = [sys.executable, "-m", "eagleray", "start", *place, *settings]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=self.environment, cwd=self._directory, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            raise RuntimeError(f"the cluster has not come up: it said {line!r}")
        self.bootstrap_servers = line.removeprefix(READY).decode().strip()

    def close(self) -> None:
        """Stop the cluster and its Ray."""
        if self._process is not None:
            processes = (
                [self._process, *psutil.Process(self.pid).children(recursive=True)] if self._is_running() else []
            )
            self._process.send_signal(signal.SIGTERM)
            _, alive = psutil.wait_procs([psutil.Process(each.pid) for each in processes], timeout=STOP_SECONDS)
            for each in alive:
                each.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None
