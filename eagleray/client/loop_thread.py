"""An event loop on a thread of its own, for clients whose callers have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from eagleray.client.errors import ClientClosed, ForkedClient, InvalidTransactionState

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop: uvloop's where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Guest(Protocol):
    """An object that has promised things that only the loop can keep."""

    def abandon(self) -> None:
        """Break the promises: the loop is ending."""

    def forked(self, error: ForkedClient) -> None:
        """Promise nothing more: this process is a child that a fork has left without the loop."""


class LoopThread:
    """Runs coroutines for threads that wait for them.

    Owns: the thread and the loop. On failure: a caller never hangs on a loop that is closed, or that a fork has left
    behind in another process; it gets an error that says so. The thread does not keep a process alive.
    """

    def __init__(self, name: str = "eagleray-client") -> None:
        self._process_id = os.getpid()
        self._is_closed = False
        self._guests: weakref.WeakSet[Guest] = weakref.WeakSet()
        self.loop = new_loop()
        self._thread = threading.Thread(target=self._run_forever, name=name, daemon=True)
        _alive.add(self)
        self._thread.start()

    def _run_forever(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            for guest in list(self._guests):
                guest.abandon()
            self._cancel_all()
            self.loop.close()

    def host(self, guest: Guest) -> None:
        """Tell a guest when the loop ends, on its thread, so that its callers do not wait for what cannot come."""
        self._guests.add(guest)

    def forked(self) -> None:
        """Tell the guests that this process has no loop."""
        for guest in list(self._guests):
            guest.forked(ForkedClient(self._whose()))

    def _whose(self) -> str:
        return f"the client was made in process {self._process_id}, and this is {os.getpid()}."

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def check(self) -> None:
        """Raise where no answer would ever come."""
        if os.getpid() != self._process_id:
            raise ForkedClient(self._whose())
        if self._is_closed or not self._thread.is_alive():
            raise ClientClosed("the client's loop is closed.")
        if threading.current_thread() is self._thread:
            message = "a blocking call from the client's own thread would wait for itself; use the asyncio clients."
            raise InvalidTransactionState(message)

    def run(self, work: Coroutine[Any, Any, Result], timeout_seconds: float | None = None) -> Result:
        """Run a coroutine on the loop and wait for it; an interrupt of the waiting thread cancels it."""
        future = self.submit(work)
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed while a call waited.") from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run a coroutine on the loop, and let the thread go on with something else meanwhile."""
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call something on the loop's thread."""
        self.check()
        self.loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """End the thread, with whatever still runs on it; repeating it does nothing."""
        if self._is_closed or os.getpid() != self._process_id:
            return
        self._is_closed = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()


_alive: weakref.WeakSet[LoopThread] = weakref.WeakSet()


def _tell_forked() -> None:
    for thread in list(_alive):
        thread.forked()


os.register_at_fork(after_in_child=_tell_forked)
