"""What all tests share: how hard hypothesis looks, and that no process outlives the run."""

import os
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck, settings

EXIT_GRACE_SECONDS = 5

# No deadlines: the machines that run this are shared, and a slow one has not found a bug. In continuous integration the
# examples are the same each time, so that a red build speaks of the change; the other profiles look for new ones.
for name, max_examples in {"dev": 50, "ci": 200, "thorough": 5_000}.items():
    settings.register_profile(
        name,
        max_examples=max_examples,
        deadline=None,
        derandomize=name == "ci",
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


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
