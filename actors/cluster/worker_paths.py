"""Makes Ray's workers import the `eagleray` package of this program.

Ray lets workers look for modules in the current directory first, and in that of the program's script. A folder
`eagleray` there, as in a checkout of this project, hides the package that the program itself has imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Final

from ray.job_config import JobConfig

_PACKAGE: Final = __name__.partition(".")[0]


def job_config() -> JobConfig:
    """The job config with which Ray is started or joined."""
    config = JobConfig()
    config._py_driver_sys_path = _SearchPath()  # noqa: SLF001 - Ray has no public way
    return config


class _SearchPath(list[str]):
    """The directories in which workers look first; those that hide our package are left out."""

    def extend(self, directories: Iterable[str]) -> None:
        super().extend(directory for directory in directories if not hides_ours(directory))


def hides_ours(directory: str) -> bool:
    """Whether another `eagleray` than the one of this program is found in a directory."""
    folder = os.path.join(directory, _PACKAGE)
    return os.path.isdir(folder) and os.path.realpath(folder) != os.path.realpath(_ours())


def _ours() -> str:
    return os.path.dirname(os.path.abspath(str(sys.modules[_PACKAGE].__file__)))


def why_not_ours() -> str:
    """Why workers do not find our package, for a program that has started or joined Ray by itself."""
    for directory in (os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))):
        if hides_ours(directory):
            return (
                f"Ray's workers look for it in {directory}, which has another eagleray than the installed one: "
                "start the program from another directory"
            )
    return f"install the same eagleray as here ({_ours()}) for the Python of Ray's workers"
