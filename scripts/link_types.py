"""Shows an editable install to type checkers: `python scripts/link_types.py`, with the interpreter that has it.

setuptools maps `eagleray.protocol` to protocol/ with a hook in Python's import, which mypy does not run. A folder
`eagleray-stubs` beside the installed packages is what mypy looks at first (PEP 561), and Python never: here it is links
to the folders of this repository, so that a new file in one of them is seen at once. Python itself imports as before.
"""

import os
import shutil
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = "eagleray"


def links() -> Iterator[tuple[str, Path]]:
    """Yield what the package consists of: a name in it, and the file or folder of the repository."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    for package, folder in settings["package-dir"].items():
        if package != PACKAGE:
            yield package.removeprefix(f"{PACKAGE}."), REPOSITORY / folder
    for source in (REPOSITORY / PACKAGE).iterdir():
        # A package of stubs is known by this name; what is in it may be ordinary modules.
        yield "__init__.pyi" if source.name == "__init__.py" else source.name, source


def main() -> None:
    """Make the links anew; those of before may lead to what is gone."""
    target = Path(sysconfig.get_path("purelib")) / f"{PACKAGE}-stubs"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name, source in links():
        if name not in ("__pycache__", "py.typed"):
            os.symlink(source, target / name)


if __name__ == "__main__":
    main()
