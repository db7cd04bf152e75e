"""Let a coverage-guided fuzzer feed a target of `tests/fuzz`, which checks the invariants itself."""

import importlib
import logging
import sys
import time
from pathlib import Path
from random import Random

import atheris

ROOT = Path(__file__).parents[1]
PRODUCT = ["eagleray.actors", "eagleray.broker", "eagleray.protocol.records"]
"""What is instrumented: what decides. The codec has a fuzzer of its own."""

_REPORT_S = 30.0
_SEEDS = 40
_SEED_BYTES = 2000


def drive(name: str) -> None:
    """Run until libFuzzer's options say stop; it is given the corpus of the tests to start from."""
    sys.path.insert(0, str(ROOT))
    logging.disable()
    with atheris.instrument_imports(include=PRODUCT):
        targets = importlib.import_module("tests.fuzz.targets")
    target = targets.TARGETS[name]()
    said_s = time.monotonic()

    def fuzz(data: bytes) -> None:
        nonlocal said_s
        target(data)
        if time.monotonic() - said_s > _REPORT_S:
            said_s = time.monotonic()
            print(f"{target.frames} frames", file=sys.stderr, flush=True)

    for argument in sys.argv[1:]:
        if Path(argument).is_dir():
            plant_seeds(Path(argument), name)
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()


def plant_seeds(folder: Path, name: str) -> None:
    """Give an empty corpus something to start from: what the tests replay, and bytes of all values."""
    if any(folder.iterdir()):
        return
    for path in sorted((ROOT / "tests" / "fuzz" / "corpus" / name).iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    for seed in range(_SEEDS):
        (folder / f"seed-{seed:02}").write_bytes(Random(seed).randbytes(_SEED_BYTES))
