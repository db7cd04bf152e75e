"""The programs of scripts/, which are no package: to be imported by name, or to be run as a check of their document."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load_script(name: str, monkeypatch: pytest.MonkeyPatch | None = None) -> ModuleType:
    """Import a script; one that has dataclasses needs `monkeypatch`, for these look their own module up by name."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    if monkeypatch is not None:
        monkeypatch.setitem(sys.modules, name, script)
    spec.loader.exec_module(script)
    return script


def check_document(name: str) -> None:
    """Assert that the document of a script is what the script would write."""
    command = [sys.executable, SCRIPTS / f"{name}.py", "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
