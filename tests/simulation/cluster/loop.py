"""An event loop in simulated time: what a process does runs on it, and ends with it."""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.simulation.schedule import Schedule

_LONGEST_WORK_MS = 30


class Clock:
    """The clock of one machine, with its own beginning and its own speed."""

    def __init__(self, schedule: Schedule, speed: float = 1.0, offset_ms: int = 0) -> None:
        self._schedule = schedule
        self.speed = speed
        self._offset_ms = offset_ms

    def now_ms(self) -> int:
        return self._offset_ms + int(self._schedule.now_ms * self.speed)

    def real_ms(self, seconds: float) -> int:
        """How long it really takes until this clock has gone on by some seconds."""
        return int(seconds * 1000 / self.speed + 0.999)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one simulated process.

    Whatever comes from outside runs with all that follows from it at once, as one step of the world. A loop that is
    paused does nothing and forgets nothing; one that is dead does nothing any more. `guard` is told of everything that
    a callback lets through.
    """

    def __init__(self, schedule: Schedule, clock: Clock, guard: Callable[[BaseException | None], None]) -> None:
        self._schedule = schedule
        self._clock = clock
        self._guard = guard
        self._ready: deque[asyncio.Handle] = deque()
        self.is_dead = False
        self.is_paused = False
        self._is_draining = False

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_draining:
            self._schedule.after(0, self.drain)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self._schedule.after(self._clock.real_ms(delay), lambda: self._due(handle))
        return handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_later(max(when - self.time(), 0), callback, *args, context=context)

    def _due(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            self._take(handle)

    def _take(self, handle: asyncio.Handle) -> None:
        if not self.is_dead:
            self._ready.append(handle)
            self.drain()

    def run(self, callback: Callable[..., Any], *args: Any) -> None:
        """Let something happen to the process, with all that follows at once."""
        self._take(asyncio.Handle(callback, args, self, None))

    def drain(self) -> None:
        """Do everything that is ready."""
        if self._is_draining or self.is_paused:
            return
        self._is_draining = True
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            while self._ready and not self.is_dead and not self.is_paused:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    self._run(handle)
        finally:
            self._is_draining = False
            asyncio._set_running_loop(outer)

    def _run(self, handle: asyncio.Handle) -> None:
        error: BaseException | None = None
        try:
            handle._context.run(handle._callback, *handle._args)
        except BaseException as raised:  # noqa: BLE001 - the guard decides
            error = raised
        self._guard(error)

    def kill(self) -> None:
        """End the process: nothing of it happens any more."""
        self.is_dead = True
        self._ready.clear()
        for task in asyncio.all_tasks(self):
            if inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED:
                # It never began, and nobody has to be warned of that.
                task.get_coro().close()

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        # A process that dies leaves its tasks as they are.
        task._log_destroy_pending = False
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Do it some time later, at once."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                future.set_exception(error)

        self._schedule.after(self._schedule.chance.randint(0, _LONGEST_WORK_MS), lambda: self.run(work))
        return future

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is looked at when it is due."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return self.is_dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.is_dead:
            self._guard(error)
