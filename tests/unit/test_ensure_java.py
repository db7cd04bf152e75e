"""scripts/ensure_java.py on simulated machines: the PATH holds nothing but what a test puts there."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.scripts import load_script

SCRIPT = Path(__file__).parents[2] / "scripts" / "ensure_java.py"

JAVA = """#!/bin/sh
case "$*" in *jdk.incubator.vector*) {vector} ;; esac
echo '    java.home = {home}' >&2
echo '    java.specification.version = {version}' >&2
"""


class Machine:
    """A machine with an empty PATH and no Java in the usual places."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script = load_script("ensure_java", monkeypatch)
        self.monkeypatch = monkeypatch
        self.programs = root / "bin"
        self.state = root / "state"
        self.programs.mkdir()
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setattr(self.script, "KNOWN_HOMES", ())
        monkeypatch.setattr(self.script, "ADMINISTRATORS_PATH", str(root / "sbin"))
        monkeypatch.setattr(self.script, "KNOWN_SERVERS", (f"{root.relative_to('/')}/postgresql/*/bin",))
        self.run_as(user_id=0)

    def run_as(self, user_id: int) -> None:
        self.monkeypatch.setattr(os, "geteuid", lambda: user_id)

    def add_program(self, name: str, text: str) -> None:
        program = self.programs / name
        program.write_text(text)
        program.chmod(0o755)

    def ensure(self, *arguments: str) -> int:
        self.monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--state", str(self.state), *arguments])
        return self.script.main()

    def recorded(self) -> dict[str, str]:
        return {path.name: path.read_text().strip() for path in self.state.iterdir()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def java(version: str = "17", vector: str = "", home: str = "/opt/java") -> str:
    return JAVA.format(version=version, vector=vector or ":", home=home)


def installer(package: str, program: Path, text: str) -> str:
    """Return a package manager that knows one package and fails for every other."""
    return f"""#!/bin/sh
case "$*" in *" {package}") ;; *) exit 100 ;; esac
/bin/cat >{program} <<'PROGRAM'
{text}
PROGRAM
/bin/chmod +x {program}
"""


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_on_the_path_is_found(machine: Machine, version: str):
    machine.add_program("java", java(version))
    assert machine.ensure("--required") == 0
    assert machine.recorded() == {"java-home": "/opt/java"}


@pytest.mark.parametrize("unusable", [java("11"), java("1.8"), java(vector="exit 1")])
def test_java_that_cannot_run_spark_is_passed_over(machine: Machine, unusable: str):
    machine.add_program("java", unusable)
    assert machine.ensure("--required") == 1
    assert list(machine.recorded()) == ["java-missing"]


def test_java_home_comes_before_the_path(machine: Machine, tmp_path: Path):
    machine.add_program("java", java())
    (tmp_path / "own/bin").mkdir(parents=True)
    chosen = tmp_path / "own/bin/java"
    chosen.write_text(java("21", home="/own"))
    chosen.chmod(0o755)
    machine.monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    assert machine.ensure() == 0
    assert machine.recorded() == {"java-home": "/own"}


def test_without_java_or_means_to_install_it_the_rest_goes_on(machine: Machine, capsys):
    assert machine.ensure() == 0
    assert list(machine.recorded()) == ["java-missing"]
    assert "Install it by hand" in capsys.readouterr().err


def test_without_root_it_says_what_to_install(machine: Machine, capsys):
    machine.run_as(user_id=1000)
    machine.add_program("apt-get", "#!/bin/sh\nexit 1\n")
    machine.add_program("sudo", "#!/bin/sh\nexit 1\n")
    assert machine.ensure() == 0
    assert "sudo apt-get install -y --no-install-recommends openjdk-17-jre-headless" in capsys.readouterr().err
    assert list(machine.recorded()) == ["java-missing"]


@pytest.mark.parametrize("package", ["openjdk-17-jre-headless", "openjdk-21-jre-headless"])
def test_root_installs_whichever_java_the_system_has(machine: Machine, package: str):
    machine.add_program("apt-get", installer(package, machine.programs / "java", java()))
    assert machine.ensure("--required") == 0
    assert machine.recorded() == {"java-home": "/opt/java"}


def test_passwordless_sudo_installs(machine: Machine):
    machine.run_as(user_id=1000)
    machine.add_program("sudo", '#!/bin/sh\nshift\n[ "$1" = true ] || exec "$@"\n')
    machine.add_program("dnf", installer("java-17-openjdk-headless", machine.programs / "java", java()))
    assert machine.ensure("--required") == 0
    assert machine.recorded() == {"java-home": "/opt/java"}


@pytest.mark.parametrize(
    ("option", "package", "program"),
    [
        ("--maven", "maven", "mvn"),
        ("--kcat", "kcat", "kcat"),
        ("--redis", "redis", "redis-server"),
        ("--postgres", "postgresql", "postgres"),
    ],
)
def test_other_programs_are_installed_only_when_asked_for(machine: Machine, option: str, package: str, program: str):
    machine.add_program("java", java())
    machine.add_program("apk", installer(package, machine.programs / program, "#!/bin/sh"))
    assert machine.ensure() == 0
    assert not (machine.programs / program).exists()
    assert machine.ensure(option, "--required") == 0
    assert (machine.programs / program).exists()


@pytest.mark.parametrize("folder", ["bin", "sbin"])
def test_ssh_server_and_rsync_are_installed_when_asked_for(machine: Machine, tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir(exist_ok=True)
    machine.add_program("java", java())
    machine.add_program("pacman", installer("openssh", tmp_path / folder / "sshd", "#!/bin/sh"))
    assert machine.ensure("--ssh", "--required") == 1
    assert (tmp_path / folder / "sshd").exists()
    machine.add_program("rsync", "#!/bin/sh")
    assert machine.ensure("--ssh", "--required") == 0


def test_server_that_is_on_no_path_is_found(machine: Machine, tmp_path: Path):
    machine.add_program("java", java())
    assert machine.ensure("--postgres", "--required") == 1
    folder = tmp_path / "postgresql" / "15" / "bin"
    folder.mkdir(parents=True)
    (folder / "postgres").write_text("#!/bin/sh")
    (folder / "postgres").chmod(0o755)
    assert machine.ensure("--postgres", "--required") == 0


def test_without_kcat_java_counts_as_found_all_the_same(machine: Machine):
    machine.add_program("java", java())
    assert machine.ensure("--kcat", "--required") == 1
    assert machine.recorded() == {"java-home": "/opt/java"}


def test_dry_run_prints_and_installs_nothing(machine: Machine, capsys):
    machine.add_program("apt-get", installer("openjdk-17-jre-headless", machine.programs / "java", java()))
    assert machine.ensure("--dry-run") == 0
    assert "+ apt-get install -y --no-install-recommends openjdk-17-jre-headless" in capsys.readouterr().out
    assert not (machine.programs / "java").exists()


def test_a_java_found_later_clears_the_marker(machine: Machine):
    machine.ensure()
    machine.add_program("java", java())
    machine.ensure()
    assert machine.recorded() == {"java-home": "/opt/java"}
