"""Usage errors for what users can mend: Spark is missing, or refuses its input."""

from __future__ import annotations

import sys
from typing import Final

from eagleray.cli.errors import UsageError
from eagleray.pipelines.jobs.errors import InvalidJob, NoFreeCpu
from eagleray.pipelines.options import OptionError
from eagleray.pipelines.spark_errors import cause_of, is_from_spark

_EXTRA: Final = frozenset({"matplotlib", "numpy", "pyarrow", "pyspark", "raydp"})


def translated(error: Exception) -> UsageError | None:
    """The usage error for an error that users can do something about; None for any other."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in _EXTRA:
        return UsageError(
            f"`eagleray pipeline` needs {error.name}, which is not installed; install it with "
            "`pip install 'eagleray[spark]'`."
        )
    if isinstance(error, InvalidJob | NoFreeCpu | OptionError) or _is_schema_error(error):
        return UsageError(str(error))
    if is_from_spark(error):
        return UsageError(" ".join([cause_of(str(error)), *(f"({note})" for note in getattr(error, "__notes__", ()))]))
    return None


def _is_schema_error(error: Exception) -> bool:
    """Whether the sink has refused columns; looked up only where it is loaded, because its module loads Spark."""
    return isinstance(error, getattr(sys.modules.get("eagleray.pipelines.sink.schema"), "SchemaError", ()))
