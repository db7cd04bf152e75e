"""A cluster that runs without a terminal, kept by a process of its own, which is found again by its pid."""

from __future__ import annotations

import fcntl
import glob
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Final

from eagleray.cli.errors import UsageError

if TYPE_CHECKING:
    from eagleray.cli.hosting_commands import StartRequest

LOG_FILE: Final = "eagleray.log"
PROGRESS: Final = "starting: "
"""The prefix of lines that say what a start is doing."""

_READY: Final = "bootstrap.servers="
_LOOK_S: Final = 0.1


def command_of(request: StartRequest) -> list[str]:
    """The command that does in the foreground what was asked for."""
    # Without -P the current directory would come first: a folder `eagleray` there is not what is running here.
    command = [sys.executable, "-P", "-m", "eagleray", "start", "--name", request.connection.name]
    command += ["--data-dir", request.data_dir, "--layout", request.layout]
    options = {
        "--listen": request.listen,
        "--machines": request.machines,
        "--advertise": request.advertise,
        "--node-ports": request.node_ports,
        "--coordinators": request.coordinators,
        "--leaders": request.leaders,
    }
    for option, chosen in options.items():
        if chosen is not None:
            command += [option, str(chosen)]
    for key, value in request.settings.items():
        command += ["--config", f"{key}={value}"]
    return command


def start(request: StartRequest, command: Sequence[str], on_progress: Callable[[str], None] = lambda _: None) -> str:
    """Start the keeper in a session of its own; return where clients reach the cluster, once it runs.

    What the keeper says it is doing is passed on meanwhile.
    """
    log_path = os.path.join(request.data_dir, LOG_FILE)
    environment = {key: value for key, value in os.environ.items() if key not in ("EAGLERAY_ADDRESS", "RAY_ADDRESS")}
    with open(log_path, "ab") as log:
        began_at = log.tell()
        keeper = subprocess.Popen(  # noqa: S603 - our own interpreter and our own options
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
    assert keeper.stdout is not None
    try:
        with keeper.stdout as said:
            line = _first_line(said, Tail(log_path, began_at), on_progress)
    except KeyboardInterrupt:
        keeper.send_signal(signal.SIGTERM)
        keeper.wait()
        raise
    if not line.startswith(_READY):
        keeper.wait()
        raise UsageError(_last_words(log_path, began_at))
    # It is no child of this process any more: `eagleray stop` finds it by its pid.
    keeper.returncode = 0
    return line.removeprefix(_READY).strip()


class Tail:
    """What is written to a log, from some place on."""

    def __init__(self, path: str, begins_at: int) -> None:
        self._path = path
        self._at = begins_at

    def new_lines(self) -> list[str]:
        """The whole lines that have come since the last time."""
        with open(self._path, "rb") as log:
            log.seek(self._at)
            whole = log.read().rpartition(b"\n")[0]
        self._at += len(whole) + bool(whole)
        return whole.decode(errors="replace").splitlines()


def _first_line(said: IO[bytes], log: Tail, on_progress: Callable[[str], None]) -> str:
    """Wait for the first line of the keeper, and pass on meanwhile what it says in its log about the start."""
    while True:
        is_there = select.select([said], [], [], _LOOK_S)[0]
        for line in log.new_lines():
            if line.startswith(PROGRESS):
                on_progress(line.removeprefix(PROGRESS))
        if is_there:
            return said.readline().decode()


def _last_words(log_path: str, began_at: int) -> str:
    with open(log_path, "rb") as log:
        log.seek(began_at)
        lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else f"the cluster did not start; {log_path} says why."


def locked_by(data_dir: str) -> str | None:
    """The first lock of a node that a process has; None where no process uses the directory."""
    folder = glob.escape(data_dir)
    locks = [*glob.glob(f"{folder}/nodes/*.lock"), *glob.glob(f"{folder}/machine-*/nodes/*.lock")]
    for path in sorted(locks):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return path
    return None
