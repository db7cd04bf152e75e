"""A person with a terminal and a Python prompt, who pastes what a page says, in order, and looks at what comes."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.support.clusters import DEADLINE_S, closed_port
from tests.support.java import QUICK_JAVA
from tests.support.pages import REPOSITORY, Block, commands_of, matches

ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")
DONE = "\0done"
WITH_CLUSTER = ("docs/deploy.md", "docs/pipelines.md")
"""The pages that are read by a person whose cluster runs."""


class Reader:
    """Has a home and a place for temporary files, and for each page a folder and a Python prompt.

    Ports that pages name are replaced by free ones, wherever they are named.
    """

    def __init__(self) -> None:
        # Not below the folder of other tests: the names of Ray's sockets would get too long.
        self.root = tempfile.mkdtemp(prefix="er-", dir="/tmp")
        self.folder = self.root
        self.temporary = os.path.join(self.root, "t")
        os.mkdir(self.temporary)
        self.environment = _environment(self.root, self.temporary)
        self._ports: dict[str, str] = {}
        self._prompt: subprocess.Popen[str] | None = None

    def read(self, page: str, blocks: list[Block]) -> None:
        """Do what a page says, from its first block to its last; where it takes a cluster for granted, start one."""
        self._open(page)
        if page in WITH_CLUSTER:
            self.run("eagleray start --layout colocated --data-dir data --listen 127.0.0.1:0 --detach")
        for block in blocks:
            self._follow(block)

    def _open(self, page: str) -> None:
        self._close_prompt()
        self.folder = os.path.join(self.root, page.replace("/", "-").removesuffix(".md"))
        os.mkdir(self.folder)

    def _follow(self, block: Block) -> None:
        # Where a run fails or takes long, this says at what.
        print(f"{time.strftime('%H:%M:%S')} {block.where}", flush=True)
        if block.file is not None:
            Path(self.folder, block.file).write_text(self._here(block.text) + "\n")
        elif block.language == "python":
            self._python(block)
        else:
            self._console(block)

    def run(self, command: str) -> str:
        """Run a command of the shell that has to succeed; return what it printed."""
        ended = self._run(command)
        assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
        return ended.stdout

    def _close_prompt(self) -> None:
        if self._prompt is not None:
            self._prompt.stdin.close()
            self._prompt.wait(DEADLINE_S)
            self._prompt.stdout.close()
            self._prompt = None

    def close(self) -> None:
        """Stop what runs; fails where something is left among the temporary files."""
        self._close_prompt()
        try:
            if any(Path(self.environment["EAGLERAY_HOME"], "clusters").glob("default@*.json")):
                self.run("eagleray stop")
            left_over = os.listdir(self.temporary)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
        assert left_over == [], f"left behind: {left_over}"

    def _here(self, text: str) -> str:
        return ADDRESS.sub(lambda found: f"127.0.0.1:{self._port(found[1])}", text)

    def _port(self, named: str) -> str:
        if named not in self._ports:
            self._ports[named] = str(closed_port())
        return self._ports[named]

    # The terminal

    def _console(self, block: Block) -> None:
        for command in commands_of(block):
            shown = tuple(self._here(line) for line in command.shown)
            may_fail = any(line.startswith("error:") for line in shown)
            ended = self._run(self._here(command.text))
            said = f"{block.where}: $ {command.text}\n{ended.stdout}{ended.stderr}"
            assert (ended.returncode != 0) is may_fail, f"ended with {ended.returncode}: {said}"
            # A terminal shows both, mostly the notes on the way before the result; a page may leave the notes out.
            printed = (ended.stdout, ended.stderr, ended.stdout + ended.stderr, ended.stderr + ended.stdout)
            is_right = any(matches(shown, each, figures_vary=block.figures_vary) for each in printed)
            assert not shown or is_right, f"does not show {shown}: {said}"

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        # What runs on in the background must not keep the pipes, and this waiting.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=DEADLINE_S,
                check=False,
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())

    # The prompt

    def _python(self, block: Block) -> None:
        code = self._here(block.text)
        # What starts a cluster is tried again by those who read, and finds what the first try has left.
        for _ in range(2 if re.search(r"^with eagleray\.start\(", code, re.MULTILINE) else 1):
            said = self._execute(code, block.where)
            assert said is None, f"{block.where}: {said}"

    def _execute(self, code: str, where: str) -> str | None:
        if self._prompt is None:
            self._prompt = self._start_prompt()
        self._prompt.stdin.write(json.dumps({"code": code, "where": where}) + "\n")
        self._prompt.stdin.flush()
        # A block that waits for ever fails, and does not keep all others waiting.
        ends = threading.Timer(DEADLINE_S, self._prompt.kill)
        ends.start()
        try:
            return self._answer(where)
        finally:
            ends.cancel()

    def _answer(self, where: str) -> str | None:
        printed = []
        for line in self._prompt.stdout:
            if line.startswith(DONE):
                raised = json.loads(line.removeprefix(DONE))
                return None if raised is None else "".join([*printed, raised])
            printed.append(line)
        raise AssertionError(f"{where}: the prompt has ended: {''.join(printed)}")

    def _start_prompt(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", REPOSITORY / "tests/docs/prompt.py"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _environment(root: str, temporary: str) -> dict[str, str]:
    hidden = ("EAGLERAY_ADDRESS", "RAY_ADDRESS")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    java_home = REPOSITORY / ".build" / "java-home"
    if java_home.exists() and not environment.get("JAVA_HOME"):
        environment["JAVA_HOME"] = java_home.read_text().strip()
    return {
        **environment,
        **QUICK_JAVA,
        "EAGLERAY_HOME": os.path.join(root, "home"),
        "TMPDIR": temporary,
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{environment['PATH']}",
        "COLUMNS": "120",
    }
