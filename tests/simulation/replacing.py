"""Putting something else in the place of a public function or class, wherever the product has imported it."""

import contextlib
import sys
from collections.abc import Iterator
from unittest import mock


@contextlib.contextmanager
def replacing(original: object, replacement: object) -> Iterator[None]:
    """Replace a function or a class in every module of the product that has it.

    A mutation then names what it breaks by where that is defined, and not by who uses it.
    """
    name = getattr(original, "__name__")  # noqa: B009 - functions and classes have one, objects have none
    places = [
        module
        for path, module in [*sys.modules.items()]
        if path.startswith("eagleray.") and getattr(module, name, None) is original
    ]
    assert places, f"nothing uses {name}"
    with contextlib.ExitStack() as stack:
        for module in places:
            stack.enter_context(mock.patch.object(module, name, replacement))
        yield
