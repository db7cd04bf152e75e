"""The import-linter contracts of pyproject.toml catch what they are there to catch.

Each test plants one import in an empty package of the real shape and runs the real contracts over it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

LAYERS = "Layers point one way"
CLIENT = "Producer, consumer and admin know what they share, not each other"
PIPELINES = "Commands stand on jobs, jobs on the data source, and its sink on its source"
COLUMNAR = "Columns are decoded and encoded from parts that know neither"
WITHOUT_SPARK = "What an application imports does not load Spark"
BELOW_THE_APPLICATION = "Nothing below the application layer imports it"
RAY = "Only what starts and supervises the cluster, and the lane through Ray, know Ray"
BROKER_ROOMS = "The rooms of the broker have an order"
ACTOR_ROOMS = "The rooms of the actors have an order"
SANS_IO = "The protocol and the broker's decisions know no Ray, network, clock or chance"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "eagleray"
    for folder in (
        root,
        *(root / name for name in ("protocol", "broker", "actors", "client", "testing", "pipelines")),
        root / "pipelines" / "columnar",
        *(
            root / "broker" / room
            for room in (
                "controller",
                "groups",
                "log",
                "metadata",
                "partitions",
                "replication",
                "runtime",
                "transactions",
            )
        ),
        *(
            root / "actors" / room
            for room in ("cluster", "common", "kafka_server", "lanes", "process", "roles", "storage")
        ),
    ):
        folder.mkdir()
        (folder / "__init__.py").touch()
    return root


def lint(package: Path) -> subprocess.CompletedProcess[str]:
    command = [LINT_IMPORTS, "--config", REPOSITORY / "pyproject.toml", "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=package.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("protocol/planted.py", "import eagleray.broker", LAYERS),
        ("broker/planted.py", "import eagleray.actors", LAYERS),
        ("actors/planted.py", "import eagleray.pipelines", LAYERS),
        ("actors/planted.py", "import eagleray.api", LAYERS),
        ("api.py", "import eagleray.pipelines", LAYERS),
        ("api.py", "import eagleray.testing", LAYERS),
        ("unlisted.py", "", LAYERS),
        ("client/consumer.py", "import eagleray.client.producer", CLIENT),
        ("client/unlisted.py", "", CLIENT),
        ("pipelines/source.py", "import eagleray.pipelines.sink", PIPELINES),
        ("pipelines/unlisted.py", "", PIPELINES),
        ("pipelines/columnar/varints.py", "import eagleray.pipelines.columnar.decoder", COLUMNAR),
        ("__init__.py", "import eagleray.pipelines", WITHOUT_SPARK),
        ("protocol/planted.py", "from eagleray import start", BELOW_THE_APPLICATION),
        ("actors/__init__.py", "import eagleray", BELOW_THE_APPLICATION),
        ("actors/kafka_server/planted.py", "import ray", RAY),
        ("actors/process/planted.py", "def late():\n    import ray", RAY),
        ("actors/roles/planted.py", "from ray.actor import ActorHandle", RAY),
        ("actors/storage/planted.py", "import ray", RAY),
        ("actors/planted.py", "import ray", RAY),
        ("testing/planted.py", "import ray", RAY),
        ("broker/log/planted.py", "import eagleray.broker.runtime", BROKER_ROOMS),
        ("broker/metadata/planted.py", "import eagleray.broker.controller", BROKER_ROOMS),
        ("broker/replication/planted.py", "import eagleray.broker.controller", BROKER_ROOMS),
        ("broker/runtime/planted.py", "import eagleray.broker.transactions", BROKER_ROOMS),
        ("broker/runtime/planted.py", "import eagleray.broker.metadata", BROKER_ROOMS),
        ("broker/transactions/planted.py", "import eagleray.broker.groups", BROKER_ROOMS),
        ("broker/partitions/planted.py", "import eagleray.broker.transactions", BROKER_ROOMS),
        ("actors/lanes/planted.py", "import eagleray.actors.common", ACTOR_ROOMS),
        ("actors/common/planted.py", "import eagleray.actors.storage", ACTOR_ROOMS),
        ("actors/storage/planted.py", "import eagleray.actors.roles", ACTOR_ROOMS),
        ("actors/storage/planted.py", "def late():\n    import eagleray.actors.process", ACTOR_ROOMS),
        ("actors/roles/planted.py", "import eagleray.actors.kafka_server", ACTOR_ROOMS),
        ("actors/roles/planted.py", "import eagleray.actors.process", ACTOR_ROOMS),
        ("actors/kafka_server/planted.py", "import eagleray.actors.roles", ACTOR_ROOMS),
        ("actors/kafka_server/planted.py", "import eagleray.actors.process", ACTOR_ROOMS),
        ("actors/process/planted.py", "import eagleray.actors.cluster", ACTOR_ROOMS),
        ("actors/unlisted.py", "", ACTOR_ROOMS),
        ("protocol/planted.py", "import asyncio.protocols", SANS_IO),
        ("protocol/planted.py", "def late():\n    from time import monotonic", SANS_IO),
        ("broker/planted.py", "from random import random", SANS_IO),
        ("broker/planted.py", "import ray", SANS_IO),
    ],
)
def test_planted_import_breaks_its_contract(package: Path, module: str, line: str, contract: str):
    for stub in ("api.py", "broker/log.py", "client/producer.py", "pipelines/sink.py", "pipelines/columnar/decoder.py"):
        (package / stub).touch()
    (package / module).write_text(f"{line}\n")

    result = lint(package)

    assert result.returncode == 1, result.stdout
    assert f"{contract} BROKEN" in result.stdout


def test_allowed_imports_keep_every_contract(package: Path):
    (package / "broker/planted.py").write_text("import os\nimport eagleray.protocol\n")
    (package / "actors/cluster/planted.py").write_text("import asyncio, ray, time\nimport eagleray.broker.planted\n")
    (package / "actors/lanes/ray_lane.py").write_text("import ray\n")
    (package / "api.py").write_text("import eagleray.actors.cluster.planted\n")
    (package / "__init__.py").write_text("import eagleray.api\n")
    (package / "pipelines/jobs.py").write_text("import pyspark\nimport eagleray\n")

    result = lint(package)

    assert result.returncode == 0, result.stdout
    assert " 0 broken" in result.stdout
