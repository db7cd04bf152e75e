"""A loop whose clock jumps: nothing is waited for, and a minute of timeouts passes in a millisecond."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

LIMIT_SECONDS = 3600


class _JumpingSelector(selectors.DefaultSelector):
    """Lets time pass in the place of waiting."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        if timeout > 0:
            self._jump(timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual_seconds = 0.0
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        return self._virtual_seconds

    def _jump(self, seconds: float) -> None:
        self._virtual_seconds += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Do it in this thread, in the next turn: the clock would run away from another one."""

        async def work() -> Any:
            return func(*args)

        return self.create_task(work())


def run_in_virtual_time(main: Callable[[], Coroutine[Any, Any, Any]], limit_seconds: float = LIMIT_SECONDS) -> Any:
    """Run to the end; fail where that takes more than this, by the clock of the loop."""

    async def bounded() -> Any:
        return await asyncio.wait_for(main(), limit_seconds)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(bounded())
