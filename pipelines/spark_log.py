"""The log of Spark's driver: a file, which is kept where a session fails."""

from __future__ import annotations

import logging
import os
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyspark.core.context
from pyspark.logger import PySparkLogger

from eagleray.pipelines.spark_errors import chain_of, is_from_spark

LOG_FILE: Final = "spark.log"
_KEPT: Final = 10
_PYTHON_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""By these PySpark prints errors of queries in lines of some ten thousand characters, and raises them as well."""


def kept_logs() -> Path:
    """The directory of logs of sessions that failed; the last ten are kept."""
    home = os.environ.get("EAGLERAY_HOME") or os.path.join(os.path.expanduser("~"), ".eagleray")
    return Path(home, "spark-logs")


@contextmanager
def driver_output_to(path: Path | None) -> Iterator[None]:
    """Make a driver that is started meanwhile write into a file; without one it writes where this process does.

    Java and Spark's launcher print before any setting of Spark's counts, so the process itself is redirected. PySpark
    would take this as an argument, but does not pass it through from where sessions are made.
    """
    if path is None:
        with _launching_with({}):
            yield
        return
    for name in _PYTHON_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    with open(path, "ab") as file, _launching_with({"stdout": file, "stderr": file}):
        yield


@contextmanager
def _launching_with(streams: Mapping[str, IO[bytes]]) -> Iterator[None]:
    """Make PySpark start the driver with these streams, and in a session of its own.

    A signal to the process group of this program, as `timeout`, systemd and a closed terminal send it, would end the
    driver before the program has stopped its query; PySpark shields it from SIGINT alone. It ends when this program
    does.
    """
    # PySpark has not typed it.
    context: Any = pyspark.core.context
    launch = context.launch_gateway

    def launch_gateway(conf: object = None) -> object:
        return launch(conf, popen_kwargs={**streams, "start_new_session": True})

    context.launch_gateway = launch_gateway
    try:
        yield
    finally:
        context.launch_gateway = launch


def keep_log(log: Path, session: str, error: BaseException) -> None:
    """Keep the log of a session in which Spark failed, with the trace; the error gets a note of its path."""
    if not any(is_from_spark(each) for each in chain_of(error)):
        return
    try:
        error.add_note(f"Spark's log is {_kept(log, session, error)}")
    except OSError as problem:
        # The error itself is worth more than its log.
        error.add_note(f"Spark's log could not be kept: {problem}")


def _kept(log: Path, session: str, error: BaseException) -> Path:
    with open(log, "a", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
        # PySpark does not show it, and most often it is the only place that names the class that failed.
        file.writelines(f"\n{trace}\n" for each in chain_of(error) if (trace := getattr(each, "_stackTrace", "")))
    directory = kept_logs()
    directory.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in session)
    kept = directory / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    shutil.copyfile(log, kept)
    for old in sorted(directory.glob("*.log"), key=os.path.getmtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return kept
