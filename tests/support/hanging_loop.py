"""A loop whose threads do their work, and say so, when a test wants it."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class HangingLoop:
    """Keeps what it is given for other threads, in the order in which it came."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Callable[[], None]]] = []
        """Each does its work when it is called, and returns what tells the loop of it."""

    def run_in_executor(self, executor: object, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def run() -> Callable[[], None]:
            try:
                result = work(*args)
            except Exception as error:  # noqa: BLE001 - the waiting side is told
                raised = error
                return lambda: future.set_exception(raised)
            return lambda: future.set_result(result)

        self.waiting.append(run)
        return future

    def run_next(self) -> None:
        """Do what came first, and tell the loop."""
        self.waiting.pop(0)()()

    def run_waiting(self) -> None:
        """Do all that waits, and what comes of that."""
        while self.waiting:
            self.run_next()
