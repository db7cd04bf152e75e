"""Spark's errors: told from other errors, reduced to their cause, and kept readable after Spark has ended.

Nothing here loads Spark: where it was not loaded, it has raised nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

_CLASSES: Final = (("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError"))
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|NotFound|Invalid\w*): (?P<said>.+)$")
_OURS: Final = re.compile(r"^eagleray\.[\w.]+: (?P<said>.+)$")
_QUERY: Final = re.compile(r"^(?:\[STREAM_FAILED\] )?Query \[.*?\] terminated with exception: ")
_TASK: Final = re.compile(r"^Job aborted due to stage failure: .*?: (?:[a-z]\w*\.)+\w+: (?P<said>.+)$")
_BY_JAVA: Final = re.compile(r"^(?:: )?(?:[a-z]\w*\.)+\w+(?:Error|Exception): (?P<said>.+)$")
_CALL: Final = re.compile(r"^An error occurred while calling \S+$")


def is_from_spark(error: BaseException) -> bool:
    """Whether Spark, or the bridge to its Java process, has raised an error."""
    return any(isinstance(error, getattr(sys.modules.get(home), name, ())) for home, name in _CLASSES)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it came from, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__context__, each.__cause__]


def remember_texts(error: BaseException) -> None:
    """Fetch the texts of Spark's errors now, because they would ask its Java process, which may be gone later."""
    for each in chain_of(error):
        if is_from_spark(each):
            _remember_text(each)


def _remember_text(error: BaseException) -> None:
    kind, text = type(error), str(error)
    remembering = {"__str__": lambda _: text, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    error.__class__ = type(kind.__name__, (kind,), remembering)


def cause_of(message: str) -> str:
    """Return the cause in Spark's message: what Python code has raised in it, ours before others, or its first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for pattern in (_OURS, _RAISED):
        raised = [match["said"] for line in lines if (match := pattern.match(line))]
        if raised:
            return raised[-1]
    told = [line for line in lines if not _CALL.match(line)]
    return _without_wrapping(told[0]) if told else "Spark failed and did not say why."


def _without_wrapping(line: str) -> str:
    """Return a line without what Spark puts before the cause: the query, the task, the Java class."""
    line = _QUERY.sub("", line)
    for pattern in (_TASK, _BY_JAVA):
        match = pattern.match(line)
        line = match["said"] if match else line
    return line.rstrip(" ;")
