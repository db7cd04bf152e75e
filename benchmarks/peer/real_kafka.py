"""A real Apache Kafka broker of one node, from Maven's jars: the peer that we are tested and measured beside.

with RealKafka(directory) as kafka:
    print(kafka.bootstrap_servers, kafka.pid)
"""

import base64
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from benchmarks.peer.readiness import free_ports, wait_for_metadata
from tests.compat.kafka_tools.jars import find_java, resolve_jars

START_SECONDS = 60
STOP_SECONDS = 30

# What Kafka's own start script gives a broker: a measurement beside one that is tuned otherwise would be worth little.
BROKER_JVM = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
QUIET_JVM = (
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dlog4j2.statusLoggerLevel=OFF",
    # It would leave a file in the temporary directory.
    "-XX:-UsePerfData",
)
FORMAT_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class RealKafka:
    """Apache Kafka in KRaft mode, broker and controller in one process, on loopback.

    Owns one process, and the files in a directory that the caller gives and removes. It is ready when a client gets
    metadata; it ends in good order, and by force where that takes too long.
    """

    name = "kafka"

    def __init__(self, directory: str | Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory = Path(directory)
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap_servers = ""
        self.start_seconds = 0.0

    @property
    def pid(self) -> int:
        assert self._process is not None, "Kafka has not been started"
        return self._process.pid

    def broker_pids(self) -> list[int]:
        """The processes whose memory is the broker's."""
        return [self.pid]

    def platform_pids(self) -> list[int]:
        """Processes that the broker runs upon; Kafka has none."""
        return []

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = free_ports(2)
        self.bootstrap_servers = f"127.0.0.1:{ports[0]}"
        properties = self._write_properties(*ports)
        self._format(properties)
        # A disk is formatted once in its lifetime; what is asked for at each start is this.
        began = time.perf_counter()
        try:
            self._start(properties)
            wait_for_metadata(self.bootstrap_servers, START_SECONDS, self._raise_if_ended)
        except BaseException:
            self.close()
            raise
        self.start_seconds = time.perf_counter() - began
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the broker."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write_properties(self, broker_port: int, controller_port: int) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        path = self._directory / "server.properties"
        lines = (f"{name}={value}\n" for name, value in (settings | self._settings).items())
        path.write_text("".join(lines))
        return path

    def _java(self, options: tuple[str, ...], *arguments: str) -> list[str]:
        return [find_java(), *QUIET_JVM, *options, "-cp", f"{resolve_jars()}/*", *arguments]

    def _format(self, properties: Path) -> None:
        # An id that begins with a dash would be taken for an option.
        cluster_id = "E" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        tool = ("kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, "--config", str(properties))
        ended = subprocess.run(self._java(FORMAT_JVM, *tool), capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"Kafka did not format its storage:\n{ended.stdout}{ended.stderr}")

    def _start(self, properties: Path) -> None:
        with self._log_path().open("wb") as output:
            command = self._java(BROKER_JVM, "kafka.Kafka", str(properties))
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | {"LC_ALL": "C.UTF-8"}
            )

    def _log_path(self) -> Path:
        return self._directory / "kafka.out"

    def _raise_if_ended(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"Kafka ended at once:\n{self._log_path().read_text()}")
