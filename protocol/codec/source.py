"""Writes the source of one function, and turns it into the function.

The source is kept where tracebacks and debuggers look for it, so that an error inside generated code shows the
line that raised it.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What generated code uses itself, variables and builtins, and no field may take from it.
RESERVED_NAMES = (
    *("buffers", "end", "error", "head", "parts", "payload", "position", "view"),
    *("bytes", "len", "map", "memoryview", "str", "sum", "tuple"),
)


class Source:
    """The lines of a function in the making, and the objects that they name."""

    def __init__(self, title: str, function: str, *parameters: str) -> None:
        self._title = title
        self._function = function
        self._parameters = parameters
        self._prologue: list[str] = []
        self._lines: list[str] = []
        self._depth = 1
        self._variables = {*RESERVED_NAMES, *parameters}
        self._objects: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + text)

    def first(self, text: str) -> None:
        """Add a line to the beginning of the function, unless it is there."""
        if text not in self._prologue:
            self._prologue.append(text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Add a line that opens a block, and indent what is added inside the `with`."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, name: str) -> str:
        """Give a local variable a name that no other has."""
        number, unique = 1, name
        while unique in self._variables:
            number += 1
            unique = f"{name}_{number}"
        self._variables.add(unique)
        return unique

    def bind(self, name: str, value: object) -> str:
        """Make an object known to the function under a name that no variable has, and give that name."""
        name = f"_{name}"
        known = self._objects.setdefault(name, value)
        if known is not value:
            raise NameError(f"{name} already means {known!r}")
        return name

    def constant(self, name: str, value: object) -> str:
        """Give an expression for a value that never changes: written out if it can be, else an object."""
        if value is None or isinstance(value, bool | int | str | bytes) or value == ():
            return repr(value)
        return self.bind(name, value)

    @property
    def text(self) -> str:
        """The source so far."""
        prologue = [f"    {line}" for line in self._prologue]
        return "\n".join([f"def {self._function}({', '.join(self._parameters)}):", *prologue, *self._lines, ""])

    def compile(self) -> Callable[..., Any]:
        """Turn the source into a function."""
        text, filename = self.text, f"<eagleray {self._title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        # The source comes from our own annotations alone: no byte of any message has a part in it.
        exec(compile(text, filename, "exec"), self._objects)  # noqa: S102
        function: Callable[..., Any] = self._objects[self._function]
        return function
