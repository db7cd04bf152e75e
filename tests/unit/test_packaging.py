"""The folders at the top level install, whole, as one package."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.wheel import build_wheel

REPOSITORY = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES: list[str] = SETUPTOOLS["packages"]
PACKAGE_FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def packages_on_disk() -> set[str]:
    return {
        ".".join((package, *initialiser.parent.relative_to(REPOSITORY / folder).parts))
        for package, folder in PACKAGE_FOLDERS.items()
        for initialiser in (REPOSITORY / folder).rglob("__init__.py")
    }


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of the tree and install it where nothing else is."""
    work, wheels, target = (tmp_path_factory.mktemp(name) for name in ("work", "wheels", "target"))
    wheel = build_wheel(work, wheels)
    install = (sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", target, wheel)
    run(*install, cwd=work)
    return target


def test_every_folder_is_a_listed_package():
    assert len(set(PACKAGES)) == len(PACKAGES)
    assert packages_on_disk() == set(PACKAGES)


def test_every_source_file_is_in_a_package():
    folders_with_code = {
        source.parent for folder in PACKAGE_FOLDERS.values() for source in (REPOSITORY / folder).rglob("*.py")
    }
    assert [str(folder) for folder in sorted(folders_with_code) if not (folder / "__init__.py").exists()] == []


def test_wheel_holds_every_module(installed: Path):
    expected = {
        Path("eagleray", *package.split(".")[1:], source.relative_to(REPOSITORY / folder))
        for package, folder in PACKAGE_FOLDERS.items()
        for source in (REPOSITORY / folder).rglob("*")
        if source.suffix == ".py" or source.name == "py.typed"
    }
    actual = {
        source.relative_to(installed)
        for source in (installed / "eagleray").rglob("*")
        if source.is_file() and source.suffix != ".pyc"
    }
    assert actual == expected


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_imports_without_the_tree(installed: Path, tmp_path: Path, package: str):
    # -I ignores the current directory and the environment; the editable finder is taken away as well.
    program = (
        "import sys;"
        "sys.meta_path[:] = [finder for finder in sys.meta_path if 'Editable' not in repr(finder)];"
        f"sys.path.insert(0, {str(installed)!r});"
        f"import {package} as package; print(package.__file__)"
    )
    output = run(sys.executable, "-I", "-c", program, cwd=tmp_path)
    assert Path(output.strip()) == installed.joinpath(*package.split("."), "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_editable_install_is_the_tree(tmp_path: Path, package: str):
    program = f"import {package} as package; print(package.__file__)"
    output = run(sys.executable, "-I", "-c", program, cwd=tmp_path)
    root = next(name for name in sorted(PACKAGE_FOLDERS, key=len, reverse=True) if package.startswith(name))
    below = package.removeprefix(root).split(".")[1:]
    assert Path(output.strip()) == REPOSITORY.joinpath(PACKAGE_FOLDERS[root], *below, "__init__.py")
