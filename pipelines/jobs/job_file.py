"""Job files: a pipeline in TOML or YAML.

    name = "large-orders"
    checkpoint = "checkpoints/large-orders"

    [source]
    topics = ["orders"]
    value_schema = "order_id BIGINT, amount_cents BIGINT"

    [transform]
    sql = "SELECT * FROM input WHERE amount_cents >= 100000"

    [sink]
    topic = "large-orders"
    key = "order_id"

Paths in a job file are relative to the file, so that a job finds its checkpoint again wherever it is started from.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from eagleray.pipelines.jobs.errors import InvalidJob, nearest
from eagleray.pipelines.jobs.model import AVAILABLE_NOW, Sink, Source, SparkSizes, Table, check_trigger

_YAML: Final = (".yaml", ".yml")
_SUFFIXES: Final = (".toml", *_YAML)


class TransformEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the rows: an SQL query over the view `input`, or a function of a module."""

    sql: str = ""
    function: str = ""
    """`module:function`, which takes a DataFrame and returns one; modules beside the job file are found."""

    def __post_init__(self) -> None:
        if bool(self.sql) == bool(self.function):
            raise InvalidJob(
                "the transform needs either `sql`, a query over `input`, or `function`, `module:function`."
            )
        if self.function and not all(self.function.partition(":")):
            raise InvalidJob(
                f"the transform's function is {self.function!r}; expected `module:function`, for example "
                "`my_jobs:only_large`."
            )


class JobFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a job file says."""

    name: str
    checkpoint: str
    source: Source
    sink: Sink
    transform: TransformEntry | None = None
    tables: dict[str, Table] = {}
    trigger: str = AVAILABLE_NOW
    cluster: str = ""
    """Empty for the only one that there is."""

    spark: SparkSizes = SparkSizes()
    directory: str = ""
    """Where the file is; known when it was read from one."""

    def __post_init__(self) -> None:
        check_trigger(self.trigger)

    def path(self, name: str) -> str:
        """A path of the file, seen from everywhere; addresses of other file systems stay as they are."""
        return name if "://" in name else os.path.join(self.directory, name)


def read_job(path: str) -> JobFile:
    """Read a job file; what is wrong with it is said with the name of the file."""
    if not path.endswith(_SUFFIXES):
        raise InvalidJob(f"the job file is {path!r}; expected a name that ends in {', '.join(_SUFFIXES)}.")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise InvalidJob(f"cannot read the job file {path} ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise InvalidJob(f"the job file {path} is not text in UTF-8.") from None
    try:
        job = parse_job(_decode_yaml(text) if path.endswith(_YAML) else _decode_toml(text))
    except InvalidJob as error:
        raise InvalidJob(f"{path}: {error}") from None
    return msgspec.structs.replace(job, directory=os.path.dirname(os.path.abspath(path)))


def parse_job(content: object) -> JobFile:
    """Make a job of what a file holds."""
    if not isinstance(content, dict):
        raise InvalidJob("a job is a table with at least name, checkpoint, source and sink.")
    _check_names(content, JobFile, "")
    if "directory" in content:
        raise InvalidJob("unknown name 'directory'; paths are relative to the job file.")
    try:
        return msgspec.convert(content, JobFile)
    except msgspec.ValidationError as error:
        raise InvalidJob(_plain(str(error))) from None


def _decode_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidJob(f"this is not TOML: {error}.") from None


def _decode_yaml(text: str) -> object:
    # Ray installs it, and only a user who writes YAML waits for it to load.
    import yaml  # noqa: PLC0415

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidJob(f"this is not YAML: {' '.join(str(error).split())}.") from None


def _check_names(content: Mapping[str, object], struct: type[msgspec.Struct], place: str) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct) if field.name != "directory"}
    for name, value in content.items():
        if name not in fields:
            where = f" in [{place}]" if place else ""
            raise InvalidJob(f"unknown name {name!r}{where}; {nearest(str(name), fields)}")
        _check_below(value, fields[name].type, f"{place}.{name}" if place else name)


def _check_below(value: object, kind: object, place: str) -> None:
    if not isinstance(value, dict):
        return
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            # In a dictionary of structs the names are the user's own.
            entries = value.items() if part is Table else [("", value)]
            for name, entry in entries:
                if isinstance(entry, dict):
                    _check_names(entry, part, f"{place}.{name}" if name else place)


def _plain(message: str) -> str:
    """What msgspec says, with places as they are written in TOML."""
    said, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".").replace("[...]", "")
    return f"{place}: {said}" if place else said
