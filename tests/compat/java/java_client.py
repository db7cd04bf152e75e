"""Kafka's own Java clients in one JVM, driven line by line: the test's side of eagleray.compat.Main.

with JavaClient(bootstrap_servers) as java:
    java.do("open_producer", name="p", config={"transactional.id": "t"})
"""

import fcntl
import hashlib
import json
import select
import subprocess
import tempfile
from pathlib import Path

from tests.compat.kafka_tools.dump_log import JVM_OPTIONS
from tests.compat.kafka_tools.jars import BUILD, find_java, resolve_jars

SOURCES = Path(__file__).parent / "eagleray" / "compat"
ANSWER_SECONDS = 60


class JavaError(Exception):
    """What a Java client threw; `name` is the simple name of the exception's class, `cause` that of its cause."""

    def __init__(self, name, message, cause=None):
        super().__init__(f"{name}: {message}")
        self.name = name
        self.cause = cause


def compiled_classes():
    """Return the directory of the compiled program, compiling it where its sources have changed."""
    jars, sources = resolve_jars(), sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + jars.name.encode()).hexdigest()[:16]
    directory = BUILD / f"java-client-{digest}"
    with (BUILD / "java-client.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            compile_into(directory, sources, jars)
    return directory


def compile_into(directory, sources, jars):
    """Compile beside the place, then move there, so that it appears whole or not at all."""
    classpath = ("-classpath", ":".join(map(str, sorted(jars.glob("*.jar")))))
    with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
        classes = Path(temporary) / "classes"
        compiler = ("org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-encoding", "UTF-8", "-nowarn")
        command = (find_java(), *JVM_OPTIONS, "-cp", f"{jars}/*", *compiler, *classpath, "-d", str(classes))
        ended = subprocess.run((*command, *map(str, sources)), capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"the Java program does not compile:\n{ended.stdout}{ended.stderr}")
        classes.rename(directory)


class JavaClient:
    """The JVM; what was opened in it is closed with it."""

    def __init__(self, bootstrap_servers):
        classpath = f"{compiled_classes()}:{resolve_jars()}/*"
        options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", *JVM_OPTIONS[1:])
        self._process = subprocess.Popen(
            (find_java(), *options, "-cp", classpath, "eagleray.compat.Main", bootstrap_servers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, command, **arguments):
        """Run a command and return its result; what the client throws is a JavaError here."""
        self.begin(command, **arguments)
        return self.result()

    def begin(self, command, **arguments):
        """Have a command run while the test does something else; `result` waits for it."""
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()

    def result(self):
        assert select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0], "Java has not answered"
        line = self._process.stdout.readline()
        assert line, "Java has ended"
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"], answer["cause"])
        return answer["ok"]

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
