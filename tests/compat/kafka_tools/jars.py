"""Brings Apache Kafka's jars from Maven, and those of other poms, once for the machine's build directory."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
BUILD = Path(__file__).parents[3] / ".build"
KAFKA_VERSION = re.compile(r"<kafka\.version>(.+)</kafka\.version>")


class ToolsUnavailableError(Exception):
    """This machine lacks Java or Maven; the message says which."""


def find_java() -> str:
    """Return the Java to run, JAVA_HOME's before the one on the PATH."""
    candidates = (str(Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java"), "java")
    java = next(filter(None, map(shutil.which, candidates)), None)
    if java is not None:
        return java
    # The set-up leaves here why it could neither find nor install one.
    marker = BUILD / "java-missing"
    raise ToolsUnavailableError(marker.read_text() if marker.exists() else "Java is not on the PATH; run make java")


def kafka_version() -> str:
    """Return the version of Kafka that the pom names."""
    (version,) = KAFKA_VERSION.findall(POM.read_text())
    return str(version)


def resolve_jars() -> Path:
    """Return the directory of Kafka's jars, filling it with Maven at the first call."""
    return resolve_jars_of(POM, f"kafka-tools-{kafka_version()}")


def resolve_jars_of(pom: Path, name: str) -> Path:
    """Return the directory of the jars that a pom names, filling it with Maven at the first call.

    Processes that call at the same time wait for one another. The directory appears whole or not at all,
    so that an interrupted download is started again.
    """
    directory = BUILD / name
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A pom that was edited since names other jars.
        if not directory.exists() or directory.stat().st_mtime < pom.stat().st_mtime:
            fetch_jars(pom, directory)
    return directory


def fetch_jars(pom: Path, directory: Path) -> None:
    """Have Maven copy the jars beside their place, then move them into it."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolsUnavailableError("Maven (mvn) is not on the PATH; it brings the jars")
    with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
        jars = Path(temporary) / "jars"
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={jars}")
        command = (maven, "--quiet", "--batch-mode", "--file", str(pom), *goal)
        # Without the option each JVM would leave a file in the temporary directory.
        environment = os.environ | {"MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} -XX:-UsePerfData".strip()}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if result.returncode != 0:
            raise RuntimeError(f"Maven failed:\n{result.stdout}{result.stderr}")
        shutil.rmtree(directory, ignore_errors=True)
        jars.rename(directory)
