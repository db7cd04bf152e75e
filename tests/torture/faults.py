"""Signals to processes, by their ids, each seen to have done what it is for."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable

import msgspec
import psutil

_SEEN_S = 90.0
_LOOK_S = 0.01


class FaultDidNotFire(Exception):
    """A fault was to be injected, and nothing happened: the torture is not what it claims to be."""


class ActorKilled(msgspec.Struct, frozen=True, tag=True):
    """The process of a node was ended with kill -9."""

    at_s: float
    node_id: int
    roles: tuple[str, ...]
    pid: int
    was_controller: bool = False


class NodePaused(msgspec.Struct, frozen=True, tag=True):
    """The process of a node was stopped for some seconds, and went on."""

    at_s: float
    node_id: int
    seconds: float
    pid: int
    was_controller: bool = False


class RayletKilled(msgspec.Struct, frozen=True, tag=True):
    """A machine's raylet was ended, later what was left of the machine, and it was started again."""

    at_s: float
    machine: int
    pids: tuple[int, ...]
    """The nodes that went with it."""


class MachineKilled(msgspec.Struct, frozen=True, tag=True):
    """Everything of a machine was ended at once, and it was started again."""

    at_s: float
    machine: int
    pids: tuple[int, ...]


class ClientKilled(msgspec.Struct, frozen=True, tag=True):
    """A client process was ended with kill -9, and another of its name was started."""

    at_s: float
    number: int
    incarnation: int
    pid: int


class ClientSuperseded(msgspec.Struct, frozen=True, tag=True):
    """A client process was stopped, went on after another had taken over its names, and so was a zombie."""

    at_s: float
    number: int
    incarnation: int
    pid: int


Fault = ActorKilled | NodePaused | RayletKilled | MachineKilled | ClientKilled | ClientSuperseded


def nodes_ended(faults: Iterable[Fault]) -> set[int]:
    """The processes of nodes that faults have ended; any other has ended by itself."""
    ended: set[int] = set()
    for fault in faults:
        if isinstance(fault, ActorKilled):
            ended.add(fault.pid)
        elif isinstance(fault, RayletKilled | MachineKilled):
            ended.update(fault.pids)
    return ended


async def kill(pid: int, *, named: str) -> None:
    """End a process that is alive and has this in its command line; return when it is gone."""
    try:
        process = psutil.Process(pid)
        command = " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        raise FaultDidNotFire(f"process {pid} ({named}) was gone before it was killed") from None
    if named not in command:
        raise FaultDidNotFire(f"process {pid} is not {named!r} but {command!r}")
    os.kill(pid, signal.SIGKILL)
    await _until(lambda: not is_alive(process), f"process {pid} ({named}) outlived kill -9")


async def pause(pid: int) -> None:
    """Stop a process where it is."""
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGSTOP)
    await _until(lambda: process.status() == psutil.STATUS_STOPPED, f"process {pid} did not stop")


async def resume(pid: int) -> None:
    """Let a process go on that was stopped."""
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGCONT)
    await _until(lambda: process.status() != psutil.STATUS_STOPPED, f"process {pid} did not go on")


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs; one that only waits to be noticed by its parent does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def _until(is_so: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + _SEEN_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise FaultDidNotFire(f"{complaint} within {_SEEN_S:.0f} s")
        await asyncio.sleep(_LOOK_S)
