"""The client processes of a torture: starting, killing, superseding and stopping them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import msgspec

from eagleray.actors.cluster.start_cluster import ClusterCredentials
from tests.torture import faults
from tests.torture.faults import ClientKilled, ClientSuperseded
from tests.torture.settings import ClientSpec, TortureSettings

_MODULE = "tests.torture.client"
_READY_S = 300.0
_LOOK_S = 0.05
_DUMP_S = 2.0
_ERRORS_SHOWN = 3_000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class ClientStuck(Exception):
    """A client process does not come to where it should be."""


class ClientProcess:
    """One client process. Owns: its files in the directory of the torture; they stay when it ends."""

    def __init__(self, spec: ClientSpec, directory: str) -> None:
        self.spec = spec
        self.name = f"client-{spec.number}-{spec.incarnation}"
        self.was_killed = False
        self.is_zombie = False
        self.errors_path = f"{directory}/{self.name}.stderr"
        self._output_path = f"{directory}/{self.name}.stdout"
        spec_path = f"{directory}/{self.name}.spec"
        with open(spec_path, "wb") as file:
            file.write(msgspec.msgpack.encode(spec))
        with open(self._output_path, "wb") as output, open(self.errors_path, "wb") as errors:
            command = [sys.executable, "-m", _MODULE, spec_path]
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    @property
    def pid(self) -> int:
        return self._process.pid

    def output(self) -> str:
        with open(self._output_path) as file:
            return file.read()

    def errors(self) -> str:
        """The end of what it has complained about; the file has all of it."""
        with open(self.errors_path) as file:
            return file.read()[-_ERRORS_SHOWN:]

    async def until_ready(self) -> None:
        """Wait until all its producers have their identities."""
        deadline_s = time.monotonic() + _READY_S
        while "ready" not in self.output():
            if self._process.poll() is not None:
                raise ClientStuck(f"{self.name} has ended with {self._process.returncode}: {self.errors()}")
            if time.monotonic() > deadline_s:
                await self.give_up()
                raise ClientStuck(f"{self.name} was not ready after {_READY_S:.0f} s: {self.errors()}")
            await asyncio.sleep(_LOOK_S)

    async def kill(self) -> None:
        await faults.kill(self.pid, named=_MODULE)
        self._process.wait()
        self.was_killed = True

    def tell_to_stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def ended(self, deadline_s: float) -> str | None:
        """Wait for the end; return what was wrong with it."""
        while self._process.poll() is None:
            if time.monotonic() > deadline_s:
                await self.give_up()
                return f"{self.name} did not end; where it was: {self.errors()}"
            await asyncio.sleep(_LOOK_S)
        if self.was_killed:
            return None
        if self._process.returncode != 0:
            return f"{self.name} has ended with {self._process.returncode}: {self.errors()}"
        if "superseded" in self.output() and not self.is_zombie:
            return f"{self.name} was fenced, but no other has taken over from it: {self.output()}"
        return None

    async def give_up(self) -> None:
        """Have it say where it is, and end it."""
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGUSR1)
        await asyncio.sleep(_DUMP_S)
        self.end_now()

    def end_now(self) -> None:
        """End it, if it runs, and forget about what it does."""
        self.tell_to_stop()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Clients:
    """All client processes that a torture has started, and which of them bear their names now."""

    def __init__(self, settings: TortureSettings, credentials: ClusterCredentials, directory: str) -> None:
        self._settings = settings
        self._credentials = credentials
        self._directory = directory
        self.current: dict[int, ClientProcess] = {}
        self.all: list[ClientProcess] = []

    def start_all(self) -> None:
        for number in range(self._settings.clients):
            self._start(number, 1)

    def _start(self, number: int, incarnation: int) -> ClientProcess:
        settings = self._settings
        partitions = range(settings.partitions)
        spec = ClientSpec(
            number=number,
            incarnation=incarnation,
            # One that takes over from itself must not be superseded: it would take over again.
            is_wild=number % 2 == 0,
            seed=settings.seed,
            history_path=f"{self._directory}/client-{number}-{incarnation}.history",
            token=self._credentials.token,
            image=self._credentials.image,
            writers=settings.writers,
            transactions_per_second=settings.transactions_per_second,
            source_partitions=settings.partitions,
            transform_partitions=tuple(place for place in partitions if place % settings.clients == number),
        )
        client = ClientProcess(spec, self._directory)
        self.all.append(client)
        self.current[number] = client
        return client

    def steady(self) -> list[int]:
        """The clients that can be superseded."""
        return [number for number, client in self.current.items() if not client.spec.is_wild]

    async def kill(self, number: int, at_s: float) -> ClientKilled:
        """End a client with kill -9, in the midst of whatever it does, and start its next incarnation."""
        client = self.current[number]
        await client.kill()
        self._start(number, client.spec.incarnation + 1)
        return ClientKilled(at_s, number, client.spec.incarnation, client.pid)

    async def supersede(self, number: int, at_s: float) -> ClientSuperseded:
        """Stop a client, let its next incarnation take over, and let it go on as a zombie."""
        zombie = self.current[number]
        await zombie.until_ready()
        await faults.pause(zombie.pid)
        zombie.is_zombie = True
        try:
            await self._start(number, zombie.spec.incarnation + 1).until_ready()
        finally:
            await faults.resume(zombie.pid)
        return ClientSuperseded(at_s, number, zombie.spec.incarnation, zombie.pid)

    async def stop_all(self, deadline_s: float) -> list[str]:
        """Let all clients finish what they have begun; return what was wrong with any."""
        for client in self.all:
            client.tell_to_stop()
        problems = [await client.ended(deadline_s) for client in self.all]
        return [problem for problem in problems if problem is not None]

    def end_now(self) -> None:
        """Leave no process behind."""
        for client in self.all:
            client.end_now()
