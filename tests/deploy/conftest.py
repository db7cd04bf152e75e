"""One deployed cluster for all tests of this folder: two machines, reached by ssh."""

import os

import pytest

from tests.deploy.deployed import DeployedCluster
from tests.deploy.machines import Machines, missing_programs, why_impossible
from tests.support.wheel import build_wheel

MACHINES = 2


def require_machines():
    """Skip where there can be no machines; in continuous integration what can be installed has to be there."""
    if missing := missing_programs():
        reason = f"{', '.join(missing)} missing: `scripts/ensure_java.py --ssh` installs what is needed"
        pytest.fail(reason, pytrace=False) if os.environ.get("CI") else pytest.skip(reason)
    if (reason := why_impossible()) is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def deployed_cluster(tmp_path_factory):
    """A cluster by `ray up` from the committed cluster.yaml, whose machines have all joined.

    `.exec(command)` runs a command on the head, and `.machines.run(*command)` one on the machine that launched it all.
    It is on a network of its own: what is not on the machines or in the repository cannot be reached from there.
    """
    require_machines()
    # In the one folder that the machines see, wherever it is.
    folder = tmp_path_factory.mktemp("machines")
    (folder / "wheel").mkdir()
    wheel = build_wheel(tmp_path_factory.mktemp("work"), folder / "wheel")
    machines = Machines(folder, MACHINES)
    try:
        cluster = DeployedCluster(machines, wheel)
        cluster.up()
        cluster.until_joined()
        yield cluster
    finally:
        machines.close()
