"""Random inputs without the instrumentation of a coverage-guided fuzzer, for many frames in little time.

python -m tests.fuzz kafka_server --seed 7 --frames 1000000
"""

import argparse
import json
import logging
import sys
import time
import traceback
from pathlib import Path
from random import Random

from tests.fuzz.targets import TARGETS, Target

_REPORT_S = 30.0


def inputs(random: Random) -> bytes:
    """Some bytes, mostly of all values."""
    return random.randbytes(random.randrange(20, 12_000))


def run(target: Target, seed: int, frames: int, seconds: float, kept: Path) -> int:
    """Feed a target; return how many inputs have failed."""
    began_s = said_s = time.monotonic()
    failures = count = number = 0
    while target.frames < frames and time.monotonic() - began_s < seconds:
        number = seed + count
        count += 1
        data = inputs(Random(number))
        try:
            target(data)
        except Exception:  # noqa: BLE001 - the next input may find another
            failures += 1
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"seed-{number}").write_bytes(data)
            print(f"input {number}:", file=sys.stderr)
            traceback.print_exc(limit=-12)
        if time.monotonic() - said_s > _REPORT_S:
            said_s = time.monotonic()
            print(f"{count} inputs, {target.frames} frames, {failures} failed", flush=True)
    target.close()
    elapsed_s = time.monotonic() - began_s
    print(
        json.dumps(
            {
                "inputs": count,
                "frames": target.frames,
                "failed": failures,
                "seconds": round(elapsed_s),
                "next": seed + count,
            }
        )
    )
    return failures


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="of the first input; the next one has the next seed")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kept", type=Path, default=Path(".build/fuzz/random"), help="where failed inputs are kept")
    arguments = parser.parse_args()
    logging.disable()
    target = TARGETS[arguments.target]()
    return run(target, arguments.seed, arguments.frames, arguments.seconds, arguments.kept / arguments.target) > 0


if __name__ == "__main__":
    sys.exit(main())
