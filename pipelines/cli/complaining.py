"""What is said when Spark is not there, or does not like what it was given."""

from __future__ import annotations

import re
import sys
from typing import Final

from eagleray.cli.complaints import Complaint
from eagleray.pipelines.jobs.errors import InvalidJob, NoFreeCpu
from eagleray.pipelines.options import OptionError

_EXTRA: Final = frozenset({"matplotlib", "numpy", "pyarrow", "pyspark", "raydp"})
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|NotFound|Invalid\w*): (?P<said>.+)$")
_OURS: Final = re.compile(r"^eagleray\.[\w.]+: (?P<said>.+)$")


def translated(error: Exception) -> Complaint | None:
    """The complaint for an error that users can do something about; None for any other."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in _EXTRA:
        return Complaint(
            f"`eagleray pipeline` needs {error.name}, which is not installed; install it with "
            "`pip install 'eagleray[spark]'`."
        )
    if isinstance(error, InvalidJob | NoFreeCpu | OptionError):
        return Complaint(str(error))
    if _is_from_spark(error):
        return Complaint(last_words(str(error)))
    return None


def _is_from_spark(error: Exception) -> bool:
    """Whether Spark has raised it; where Spark was not loaded, it has not."""
    homes = (("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError"))
    return any(isinstance(error, getattr(sys.modules.get(home), name, ())) for home, name in homes)


def last_words(message: str) -> str:
    """What Spark's message is about: what Python code has raised in it, ours before others, or else its first line."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for pattern in (_OURS, _RAISED):
        raised = [match["said"] for line in lines if (match := pattern.match(line))]
        if raised:
            return raised[-1]
    return (lines or ["Spark failed and did not say why."])[0]
