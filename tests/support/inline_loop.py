"""A loop that does at once what is to be done in another thread."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class InlineLoop:
    """Runs what it is given in the caller's turn."""

    def run_in_executor(self, executor: object, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args))
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)
        return future
