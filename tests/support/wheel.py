"""The package as a wheel."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def build_wheel(work: Path, wheels: Path) -> Path:
    """Build a wheel of the tree; `work` takes what building leaves."""
    # setuptools would build in the tree, and put into the wheel what an older build left there.
    configuration = work / "distutils.cfg"
    configuration.write_text(f"[build]\nbuild_base = {work}\n[egg_info]\negg_base = {work}\n")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), str(REPOSITORY)]
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(configuration)}
    built = subprocess.run(
        command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert built.returncode == 0, built.stdout
    (wheel,) = wheels.glob("*.whl")
    return wheel
