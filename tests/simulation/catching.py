"""Whether a simulated world is broken by the rule that a mutation breaks, and not by a slip of the mutation itself."""

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tests.simulation.schedule import Violation

SLIPS = (AttributeError, NameError, TypeError)
"""What calls raise that name what is not there: such a world has told nothing of the rule."""


def is_broken(simulate: Callable[[], object]) -> bool:
    """Run a world; say whether it did what it must never do."""
    return caught_by(simulate) is not None


def caught_by(simulate: Callable[[], object]) -> str | None:
    """Run a world; return what it did that it must never do, or None."""
    try:
        simulate()
    except Violation as violation:
        if not isinstance(violation.__cause__, SLIPS):
            return str(violation)
        if _is_of_a_test(violation.__cause__):
            raise violation.__cause__ from None
    return None


def is_caught(mutation: Callable[[], AbstractContextManager[Any]], simulate: Callable[[int], Any], seed: int) -> bool:
    """Whether the world of a seed is broken by the rule that the mutation breaks, and by nothing else."""
    with mutation():
        if not is_broken(partial(simulate, seed)):
            return False
    simulate(seed)
    return True


def _is_of_a_test(error: BaseException) -> bool:
    """Whether the simulator or the mutation has made a call that cannot be, rather than the product."""
    return "/tests/" in traceback.extract_tb(error.__traceback__)[-1].filename
