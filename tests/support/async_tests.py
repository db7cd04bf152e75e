"""Tests that are coroutines: each is awaited on a loop of its own, in real time or in virtual time."""

import asyncio
import inspect
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

import pytest

from tests.support.client_clock import VirtualTimeLoop

_T = TypeVar("_T")

LIMIT_SECONDS = {True: 3600, False: 300}
"""How long a test may take, in virtual and in real time: long enough for any machine, and not for ever."""


class LoopRunner(asyncio.Runner):
    """Runs coroutines one after another on one loop, each to its end or to the limit."""

    def __init__(self, *, is_virtual: bool = False) -> None:
        super().__init__(loop_factory=VirtualTimeLoop if is_virtual else None)
        self._limit_s = LIMIT_SECONDS[is_virtual]

    def run(self, coro: Coroutine[Any, Any, _T], **options: Any) -> _T:
        async def limited() -> _T:
            async with asyncio.timeout(self._limit_s):
                return await coro

        return super().run(limited(), **options)

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
        """Enter on the loop, and leave on it, however long is between."""
        entered = self.run(manager.__aenter__())
        try:
            yield entered
        finally:
            self.run(manager.__aexit__(None, None, None))


@pytest.fixture
def virtual_time() -> None:
    """Run the test on a loop whose clock jumps over every wait."""


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Iterator[LoopRunner]:
    """The loop of a test that is a coroutine, for fixtures that live on it."""
    with LoopRunner(is_virtual="virtual_time" in request.fixturenames) as runner:
        yield runner


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Give a test that is a coroutine a loop."""
    if inspect.iscoroutinefunction(obj) and collector.istestfunction(obj, name):
        pytest.mark.usefixtures("runner")(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Await a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    pyfuncitem.funcargs["runner"].run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
