"""Signals that ask a command to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP, which a closed terminal sends.

The first of them becomes one exception in the main thread, `Interrupted`:

- Work on a loop (`running.run`) is cancelled: it closes its clients in good order, an open transaction is aborted, and
  once it has ended `running.run` raises Interrupted. Work that ends well in spite of it was not interrupted.
- Within `held`, as where Ray is started or ended, the signal is noted, and raised when the block has ended.
- In all other code of the main thread it is raised where that is.

A command that has something to say about it catches Interrupted, says it, and raises it again:

    try:
        run(connection, work)
    except Interrupted:
        note("interrupted after 3 records")
        raise

The program ends with 128 + the number of the signal then, and with the same code where a command fails after a signal,
for example with a UsageError about what was left undone. Interrupted is a KeyboardInterrupt, for code that knows that.

A signal that comes more than a second after the first ends the process at once. One that comes sooner is the first
again: `timeout` sends it to the process and to its group, and shells and the kernel both tell of a closed terminal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_S: Final = 1.0


class Interrupted(KeyboardInterrupt):
    """A signal has asked the command to stop."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What the program ends with, by the convention of shells."""
        return 128 + self.number


class StopSignals:
    """What a process does when it is asked to stop.

    Owns: the handlers of the three signals while they are `taken`, and which of them came first. There is one for the
    process, because its signals are those of the process.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self._first_s = 0.0
        self._is_due = False
        self._is_taken = False
        self._holds = 0
        self._stop: Callable[[], None] | None = None
        self._last_acts: list[Callable[[], None]] = []
        self._terminals: list[int] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Handle the signals in here; where they are handled already, go on doing so. For the main thread.

        A signal that the process was told to ignore, as `nohup` does, stays ignored.
        """
        if self._is_taken or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._is_taken, self.first, self._is_due = True, None, False
        self._terminals = _terminals()
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        heeded = [number for number in STOP_SIGNALS if before[number] is not signal.SIG_IGN]
        try:
            for number in heeded:
                signal.signal(number, self._on_signal)
            yield
        finally:
            for number in heeded:
                signal.signal(number, before[number])
            self._is_taken = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Do something that must not be left half done: a signal that comes meanwhile is raised afterwards."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        if self._holds == 0:
            self.check()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Do something that ends by itself once it is told to stop; at once, where a signal has come before."""
        before, self._stop = self._stop, stop
        try:
            if self._is_due:
                self._is_due = False
                stop()
            yield
        finally:
            self._stop = before

    @contextmanager
    def at_once(self, last_act: Callable[[], None]) -> Iterator[None]:
        """Do something of which a process that ends at once would leave something behind, but for the last act."""
        self._last_acts.append(last_act)
        try:
            yield
        finally:
            self._last_acts.remove(last_act)

    def check(self) -> None:
        """Raise Interrupted where a signal has come that nothing was told of yet."""
        if self._is_due:
            raise self.interrupted()

    def interrupted(self) -> Interrupted:
        """What to raise for the signal that has come."""
        assert self.first is not None, "a signal has come"
        self._is_due = False
        return Interrupted(self.first)

    @property
    def exit_code(self) -> int | None:
        """What a program ends with that failed after a signal; None where none has come."""
        return None if self.first is None else Interrupted(self.first).exit_code

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.first is not None:
            if time.monotonic() - self._first_s > _SAME_S:
                self._end(number)
            return
        self.first, self._first_s, self._is_due = signal.Signals(number), time.monotonic(), True
        if self.first is signal.SIGHUP:
            self._let_go_of_terminals()
        if self._stop is not None:
            self._is_due = False
            self._stop()
        elif self._holds == 0:
            raise self.interrupted()

    def _end(self, number: int) -> None:
        for act in reversed(self._last_acts):
            with suppress(Exception):
                act()
        os._exit(128 + number)

    def _let_go_of_terminals(self) -> None:
        """Stop writing to a terminal that is gone: the clean stop would fail on its own output."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._terminals:
            os.dup2(nowhere, descriptor)


def _terminals() -> list[int]:
    descriptors = {1, 2}
    with suppress(OSError, ValueError, AttributeError):
        descriptors.add(sys.stdout.fileno())
    return [descriptor for descriptor in sorted(descriptors) if os.isatty(descriptor)]


stop_signals: Final = StopSignals()
