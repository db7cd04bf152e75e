"""Ray's own processes beside ours: which of them gets which signal, and what they leave behind."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ray._private import services
from ray._private import utils as ray_utils
from ray._private import worker as ray_worker

_REMOVE_S: Final = 5.0
_RETRY_S: Final = 0.05


class _OwnSession(services.ConsolePopen):
    """A process of Ray in a session of its own.

    A signal to the process group of this program, as `timeout`, systemd and a closed terminal send it, would end Ray
    before the program has shut its cluster down. Ray still ends when this program does: the kernel ensures that.
    """

    def __init__(self, *arguments: object, preexec_fn: Callable[[], None] | None = None, **options: object) -> None:
        def prepare() -> None:
            if preexec_fn is not None:
                preexec_fn()
            # The signal is blocked in this program while Ray starts, and the new process would never receive it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

        super().__init__(*arguments, preexec_fn=prepare, start_new_session=True, **options)  # type: ignore[call-overload]


@contextmanager
def own_sessions() -> Iterator[None]:
    """Let Ray start its processes in sessions of their own."""
    before = services.ConsolePopen
    services.ConsolePopen = _OwnSession  # type: ignore[misc,assignment] # it is what Ray looks up
    try:
        yield
    finally:
        services.ConsolePopen = before  # type: ignore[misc] # as above


@contextmanager
def kept_sigterm() -> Iterator[None]:
    """Keep the program's own handler of SIGTERM while Ray is started or joined, where the program has one.

    Ray replaces it twice, by one that exits and by one that prints a stack trace. A signal that comes meanwhile is
    blocked, and handled by the program afterwards.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    set_handler = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda _: None
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        ray_utils.set_sigterm_handler = set_handler
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def blocked_sigterm() -> Iterator[None]:
    """Block SIGTERM in this thread, and for good in the threads that are started meanwhile.

    The kernel gives a signal to any thread that takes it. In threads of gRPC Ray's own handler would take it, and print
    a stack trace.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def kill_all() -> None:
    """Kill Ray's processes that were started here."""
    node: Any = ray_worker._global_node  # noqa: SLF001 - Ray has no public way
    if node is not None:
        node.kill_all_processes(check_alive=False, allow_graceful=False)


def remove_folder(path: str) -> None:
    """Remove Ray's temporary directory, again while processes that are about to end put files into it."""
    deadline = time.monotonic() + _REMOVE_S
    while True:
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path) or time.monotonic() > deadline:
            return
        time.sleep(_RETRY_S)
