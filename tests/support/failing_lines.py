"""Makes code raise at a line of a test's choice, so that a test can go over all the ways in which it may fail."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any


class Injected(Exception):
    """The error that a test has planned."""


class FailingLine:
    """Raises before the n-th line that is executed in some files; `has_fired` tells whether there were as many."""

    def __init__(self, folders: Iterable[str], line: int, without: Iterable[str] = ()) -> None:
        self._folders = tuple(folders)
        self._without = tuple(without)
        self._left = line
        self.has_fired = False
        self.is_over = False
        """Whether what comes now is not meant any more."""

    def run(self, act: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return act()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        path = frame.f_code.co_filename
        is_meant = any(folder in path for folder in self._folders) and not path.endswith(self._without)
        is_meant = is_meant and "/tests/" not in path and frame.f_code.co_name != "end_turn"
        return self._step if is_meant and not self.has_fired else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and not self.has_fired and not self.is_over:
            self._left -= 1
            if self._left == 0:
                self.has_fired = True
                raise Injected(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._step
