"""Watches the loop of a node from a thread of its own, and ends the process when the disk does not let go of it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from eagleray.actors.storage import disk
from eagleray.broker import filesystem
from eagleray.broker.runtime.loop_stall import LOOK_MS, LoopStall, StallVerdict

EXIT_STATUS: Final = 71
_DISK_MODULES: Final = frozenset({disk.__name__, filesystem.__name__, "logging", "logging.handlers"})
"""Where the loop is when it waits for a disk; what a node logs is on its disk, too."""

_IDLE_SHARE: Final = 100
"""A thread that uses less than this part of the time does nothing but wait."""

_SHOWN_FRAMES: Final = 12


class LoopWatch:
    """Says that the loop does not run, and where it is; ends the process when that is one call of the disk.

    Owns: a thread, which asks the loop for a sign of life every second. It writes to the standard error and to nothing
    else: the log of the node is on the disk that hangs, and a thread that hangs there may hold the locks of logging.
    A process whose disk hangs in the kernel may take until the disk answers to be gone. Its threads are at their end
    before, so it does nothing any more.
    """

    def __init__(
        self,
        name: str,
        timeout_ms: int,
        *,
        end: Callable[[int], object] = os._exit,
        say: Callable[[str], object] | None = None,
    ) -> None:
        """Watch the running loop, whose thread this is, from `start` on."""
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._cpu_clock = time.pthread_getcpuclockid(self._thread_id)
        self._stall = LoopStall(timeout_ms)
        self._end = end
        self._write = say or _write_to_standard_error
        self._has_run = threading.Event()
        self._is_over = threading.Event()
        self._last: tuple[FrameType, int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="loop-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._has_run.clear()
            try:
                self._loop.call_soon_threadsafe(self._has_run.set)
            except RuntimeError:
                # The loop is closed.
                return
            self._watch_until_it_runs()
            self._is_over.wait(LOOK_MS / 1000)

    def _watch_until_it_runs(self) -> None:
        while not self._is_over.is_set():
            has_run = self._has_run.wait(LOOK_MS / 1000)
            frame = None if has_run else self._frame_of_disk_call()
            is_in_same_call = self._is_still_in(frame)
            stalled_ms = self._stall.stalled_ms
            verdict = self._stall.look(
                time.monotonic_ns() // 1_000_000, has_run=has_run, is_in_same_call=is_in_same_call
            )
            if verdict is StallVerdict.SAY_OVER:
                self._say(f"its loop runs again, after {stalled_ms / 1000:.0f} s")
            elif verdict is StallVerdict.SAY:
                where = "waits for its disk" if frame is not None else "is busy"
                self._say(
                    f"its loop has not run for {self._stall.stalled_ms / 1000:.0f} s, and {where}:{self._stack()}"
                )
            elif verdict is StallVerdict.END:
                self._say(
                    f"a call of its disk has not returned for {self._stall.in_call_ms / 1000:.0f} s "
                    "(storage.flush.timeout.ms); it ends itself. Look at the disk, or at the network that it is "
                    f"reached by:{self._stack()}"
                )
                self._end(EXIT_STATUS)
                return
            if has_run:
                return

    def _frame_of_disk_call(self) -> FrameType | None:
        """The innermost frame of the loop's thread, where it is in a call of the disk."""
        innermost = frame = self._innermost_frame()
        while frame is not None:
            if frame.f_globals.get("__name__") in _DISK_MODULES:
                return innermost
            frame = frame.f_back
        return None

    def _is_still_in(self, frame: FrameType | None) -> bool:
        """Whether the loop is where it was at the last look, and has done nothing but wait since."""
        last, self._last = self._last, None
        if frame is None:
            return False
        cpu_ns = time.clock_gettime_ns(self._cpu_clock)
        self._last = (frame, frame.f_lasti, cpu_ns)
        most_ns = LOOK_MS * 1_000_000 // _IDLE_SHARE
        return last is not None and last[:2] == self._last[:2] and cpu_ns - last[2] < most_ns

    def _innermost_frame(self) -> FrameType | None:
        return sys._current_frames().get(self._thread_id)  # noqa: SLF001 - it is documented, for such watches

    def _stack(self) -> str:
        frame = self._innermost_frame()
        return "\n" + "".join(traceback.format_stack(frame, _SHOWN_FRAMES)) if frame is not None else ""

    def _say(self, sentence: str) -> None:
        self._write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {self._name}: {sentence}\n")


def _write_to_standard_error(text: str) -> None:
    os.write(2, text.encode())
