"""What all tests share: how hard hypothesis looks, who awaits coroutines, and that no process outlives the run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.support.async_tests import pytest_pycollect_makeitem, pytest_pyfunc_call, runner, virtual_time

__all__ = ["pytest_pycollect_makeitem", "pytest_pyfunc_call", "runner", "virtual_time"]

EXIT_GRACE_SECONDS = 5

# A shell lets what it runs in the background ignore Ctrl-C, and so would every program that a test sends a signal to.
for number, handler in {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# No deadlines: the machines that run this are shared, and a slow one has not found a bug. The examples are the same
# everywhere and every time, so that a red run speaks of the change; `make explore` alone looks for new ones. None are
# kept in a database: what was found becomes an `@example` of its test. Those of `make explore` are, until they hold:
# a run that is interrupted while hypothesis shrinks an example has not said yet what it found.
for name, max_examples in {
    "test": 200,
    "thorough": 5_000,
    "explore": int(os.environ.get("EXPLORED_EXAMPLES", "2000")),
}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        deadline=None,
        derandomize=name != "explore",
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile(
    "explore",
    settings.get_profile("explore"),
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".build" / "explored-examples"),
)
settings.register_profile("replay", settings.get_profile("explore"), phases=[Phase.reuse])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "test")


@pytest.fixture(scope="session", autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Fail the run if a test leaves a child process, and end what it left."""
    children_before = set(psutil.Process().children(recursive=True))
    yield
    children = set(psutil.Process().children(recursive=True)) - children_before
    _, left_behind = psutil.wait_procs(children, timeout=EXIT_GRACE_SECONDS)
    if left_behind:
        report = "\n".join(describe(process) for process in left_behind)
        for process in left_behind:
            process.kill()
        psutil.wait_procs(left_behind, timeout=EXIT_GRACE_SECONDS)
        pytest.fail(f"tests left processes behind:\n{report}", pytrace=False)


def describe(process: psutil.Process) -> str:
    try:
        return f"  {process.pid}: {' '.join(process.cmdline())}"
    except psutil.NoSuchProcess:
        return f"  {process.pid}: ended meanwhile"
