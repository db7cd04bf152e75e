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
RUNTIME = "What all state machines share knows none of them"
SANS_IO = "The protocol and the broker's decisions know no Ray, network, clock or chance"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "eagleray"
    for folder in (
        root,
        *(root / name for name in ("protocol", "broker", "actors", "client", "pipelines", "pipelines/columnar")),
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
        ("unlisted.py", "", LAYERS),
        ("client/consumer.py", "import eagleray.client.producer", CLIENT),
        ("client/unlisted.py", "", CLIENT),
        ("pipelines/source.py", "import eagleray.pipelines.sink", PIPELINES),
        ("pipelines/unlisted.py", "", PIPELINES),
        ("pipelines/columnar/varints.py", "import eagleray.pipelines.columnar.decoder", COLUMNAR),
        ("__init__.py", "import eagleray.pipelines", WITHOUT_SPARK),
        ("protocol/planted.py", "from eagleray import start", BELOW_THE_APPLICATION),
        ("actors/__init__.py", "import eagleray", BELOW_THE_APPLICATION),
        ("broker/runtime.py", "import eagleray.broker.log", RUNTIME),
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
    (package / "actors/planted.py").write_text("import asyncio, ray, time\nimport eagleray.broker.planted\n")
    (package / "api.py").write_text("import eagleray.actors.planted\n")
    (package / "__init__.py").write_text("import eagleray.api\n")
    (package / "pipelines/jobs.py").write_text("import pyspark\nimport eagleray\n")

    result = lint(package)

    assert result.returncode == 0, result.stdout
    assert " 0 broken" in result.stdout
