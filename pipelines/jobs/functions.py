"""Transforms: an SQL query, or a function that is named in a job file."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from types import ModuleType

from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame

from eagleray.pipelines.jobs.errors import InvalidJob, nearest
from eagleray.pipelines.jobs.model import Table, TransformFunction, as_options

INPUT_VIEW = "input"


def sql(query: str, tables: Mapping[str, Table | DataFrame] | None = None) -> TransformFunction:
    """A transform in SQL: `input` is what is read, and each table has the name that it is given here.

    sql("SELECT country, sum(amount_cents) AS cents FROM input GROUP BY country")
    """

    def transform(frame: DataFrame) -> DataFrame:
        add_tables(frame, tables or {})
        frame.createOrReplaceTempView(INPUT_VIEW)
        return frame.sparkSession.sql(query)

    return transform


def add_tables(frame: DataFrame, tables: Mapping[str, Table | DataFrame]) -> None:
    """Make tables known by their names to the session of a frame."""
    for name, table in tables.items():
        if isinstance(table, Table):
            reader = frame.sparkSession.read.format(table.format).options(**as_options(table.options))
            table = reader.load(table.path)  # noqa: PLW2901 - the same table, read
        table.createOrReplaceTempView(name)


def load_function(name: str, directory: str = "") -> TransformFunction:
    """Find `module:function`; a module in the job file's directory comes before others.

    A module that needs a running Spark to be loaded, such as for `@udf("int")`, is loaded when there is one.
    """
    try:
        return _find(name, directory)
    except PySparkRuntimeError as error:
        if error.getCondition() != "SESSION_OR_CONTEXT_NOT_EXISTS":
            raise

        def find_and_transform(frame: DataFrame) -> DataFrame:
            return _find(name, directory)(frame)

        return find_and_transform


def _find(name: str, directory: str) -> TransformFunction:
    module_name, _, function_name = name.partition(":")
    module = _load_module(module_name, directory)
    function = getattr(module, function_name, None)
    if function is None:
        functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise InvalidJob(
            f"module {module_name!r} has no function {function_name!r}; {nearest(function_name, functions)}"
        )
    if not callable(function):
        raise InvalidJob(f"{name!r} is a {type(function).__name__}; expected a function that takes a DataFrame.")
    transform: TransformFunction = function
    return transform


def _load_module(name: str, directory: str) -> ModuleType:
    if directory and directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise InvalidJob(
                f"module {name!r} of the transform needs {error.name!r}, which is not installed."
            ) from None
        where = f" beside the job file in {directory} or" if directory else ""
        raise InvalidJob(f"there is no module {name!r} for the transform; it has to be{where} installed.") from None
    file = getattr(module, "__file__", None)
    if directory and file and os.path.dirname(os.path.abspath(file)) == directory:
        # Executors do not have the directory of the job: functions of the module travel with the plan.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call] # Spark has not typed it
    return module
