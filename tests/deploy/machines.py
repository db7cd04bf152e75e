"""Machines for `ray up` that are namespaces of this one: what they need, how they begin and end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
NETWORK = "10.77.0"
"""Nobody outside sees it."""

PROGRAMS = ("ssh", "ssh-keygen", "sshd", "rsync", "ip", "unshare", "nsenter", "mount", "ss", "java")
NAMESPACES = ("--mount", "--pid", "--net", "--ipc", "--uts")
_JAVA_HOME = os.environ.get("JAVA_HOME") or "/usr"
_PATH = f"{_JAVA_HOME}/bin:{os.environ['PATH']}:/usr/sbin:/sbin"

SSHD_CONFIG = """
HostKey {folder}/host_key
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
StrictModes no
PidFile none
"""


def missing_programs() -> list[str]:
    """What has to be installed for the machines to be made."""
    return [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]


def why_impossible() -> str | None:
    """Why there can be no such machines here, whatever is installed; None where there can."""
    if os.geteuid() != 0:
        return "only root can make the machines"
    if sys.prefix == sys.base_prefix:
        return "the machines share the virtual environment of the tests, and there is none"
    mounting = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work && mount -t overlay overlay /mnt"
    options = f"-o lowerdir={sys.prefix},upperdir=/mnt/upper,workdir=/mnt/work"
    tried = subprocess.run(
        ["unshare", *NAMESPACES, "--fork", "sh", "-c", f"{mounting} {options} && ip link add type veth"],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if tried.returncode == 0 else f"this system gives no namespaces of its own: {tried.stderr.strip()}"


class Machines:
    """A network of machines, and a launcher that reaches them by ssh.

    Owns: the processes, which end with the first of them, and a folder with their homes and temporary files. Nothing
    outside of the folder is written.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.addresses = [f"{NETWORK}.{number}" for number in range(2, 2 + count)]
        self.key = folder / "key"
        for name in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True)
        (folder / "sshd_config").write_text(SSHD_CONFIG.format(folder=folder))
        self._process = self._start()
        self._first = psutil.Process(self._process.pid).children()[0].pid

    def _start(self) -> subprocess.Popen[str]:
        arguments = [str(HERE / "machines.sh"), str(self.folder), sys.prefix, sys.base_prefix, *self.addresses]
        with (self.folder / "launcher.log").open("w") as log:
            process = subprocess.Popen(
                ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
                env=_environment(),
            )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (self.folder / "launcher.log").read_text()
        return process

    def run(self, *command: str, timeout_s: float = 300, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command on the launcher."""
        entering = ["nsenter", "--target", str(self._first), *NAMESPACES, f"--wd={REPOSITORY}", "--"]
        ended = subprocess.run(
            [*entering, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=timeout_s,
            check=False,
        )
        assert not check or ended.returncode == 0, f"{command} failed:\n{ended.stdout[-8000:]}\n{ended.stderr[-8000:]}"
        return ended

    def ssh(self, address: str, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine, in the shell that its user has."""
        options = ("-q", "-i", str(self.key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
        return self.run("ssh", *options, f"root@{address}", f"bash -i -c {shlex.quote(command)}", check=check)

    def close(self) -> None:
        """End all machines at once, and remove what they wrote."""
        os.kill(self._first, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self.folder)


def _environment() -> dict[str, str]:
    hidden = ("RAY_ADDRESS", "EAGLERAY_ADDRESS", "RAY_TMPDIR", "TMPDIR", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return kept | {
        "PATH": f"{sys.prefix}/bin:{_PATH}",
        "HOME": os.path.expanduser("~root"),
        "JAVA_HOME": _JAVA_HOME,
    }
