"""Commands of Eagleray as processes on a real Ray, with all that they leave behind in one place."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psutil

from tests.support.cli_cluster import eagleray, run_process

READY = b"bootstrap.servers="
GONE_SECONDS = 90
FEWER = (
    # Of all that takes time to start, and that most tests do not look at.
    *("--config", "transaction.state.log.num.partitions=4"),
    *("--config", "offsets.topic.num.partitions=4"),
)


class Machine:
    """A home, a data directory and a place for temporary files, which commands share."""

    def __init__(self):
        # Sockets have short names, and Ray puts them deep into a directory for temporary files.
        # Not below the folder of other tests: the names of Ray's sockets would get too long.
        self.folder = tempfile.mkdtemp(prefix="er-", dir="/tmp")
        self.temporary = os.path.join(self.folder, "t")
        os.mkdir(self.temporary)
        self.data_dir = os.path.join(self.folder, "data")
        self._started = []
        hidden = ("EAGLERAY_ADDRESS", "RAY_ADDRESS")
        self.environment = {key: value for key, value in os.environ.items() if key not in hidden}
        self.environment |= {"EAGLERAY_HOME": os.path.join(self.folder, "home"), "TMPDIR": self.temporary}

    def run(self, *arguments, stdin=b""):
        """Run a command that has to succeed, and return what it printed."""
        ended = run_process(*arguments, stdin=stdin, environment=self.environment)
        assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def shell(self, line):
        """Run a line of the shell, however it ends."""
        return subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=self.environment)

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def start(self, *options):
        """Run a cluster in the foreground; return the process and where clients reach it."""
        command = eagleray("start", "--data-dir", self.data_dir, "--listen", "127.0.0.1:0", *FEWER, *options)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=self.environment, start_new_session=True)
        self._started.append(process)
        line = process.stdout.readline()
        assert line.startswith(READY), line
        return process, line.removeprefix(READY).decode().strip()

    def keeper(self):
        """The process that keeps the cluster."""
        (record,) = Path(self.environment["EAGLERAY_HOME"], "clusters").glob("default@*.json")
        return psutil.Process(json.loads(record.read_text())["keeper_pid"])

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(GONE_SECONDS)
            process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def with_descendants(process):
    """A process and all below it."""
    process = psutil.Process(process.pid)
    return [process, *process.children(recursive=True)]


def still_running(processes):
    """Those that have not ended, after a while."""
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    return alive
