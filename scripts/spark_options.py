"""Write docs/spark-options.md from the code, or check that it is up to date.

python scripts/spark_options.py            # write it
python scripts/spark_options.py --check    # fail if it would change
"""

import sys
from pathlib import Path

# The folders of the repository have their names as packages only where they are installed, and mypy looks here.
from eagleray.pipelines.options.table import SHARED_OPTIONS, SINK_OPTIONS, SOURCE_OPTIONS, render_table

DOCUMENT = Path(__file__).parents[1] / "docs" / "spark-options.md"

INTRODUCTION = """# Options of the Spark data source

`format("eagleray")` reads with `spark.read` and `spark.readStream`, and writes with `df.write` and `df.writeStream`.
Its options have the names and meanings of those of Spark's Kafka source and sink where these have them, in upper or
lower case. An option that does not exist, that belongs to the other side or to the other kind of query, or that has a
value which cannot be used is an error when the query is planned. Options that Spark adds by itself, such as
`checkpointLocation` and `queryName`, are let through.

Times have a unit, `ms`, `s`, `m`, `h` or `d`, and are milliseconds without one; sizes are bytes, or have `k` or `m`.

This page is written by `scripts/spark_options.py` from the code.
"""

SOURCE = """
## Source

Exactly one of `subscribe`, `subscribePattern` and `assign` has to be given.

"""

SOURCE_COLUMNS = """
The columns are `key` and `value` (binary), `topic` (string), `partition` (int), `offset` (bigint), `timestamp`
(timestamp), `timestampType` (int; 0 for the time of creation, 1 for that of the append) and, with `includeHeaders`,
`headers` (array of struct of `key`, string, and `value`, binary).
"""

SINK = """
## Sink

"""

SINK_COLUMNS = """
The columns may be `value` (string or binary; has to be there), `key` (string or binary), `topic` (string; has to be
there without the option), `partition` (int), `timestamp` (timestamp) and `headers` (as those of the source). Any other
column is an error.
"""

SHARED = """
## Both

"""


def render() -> str:
    """Render the whole document."""
    source = SOURCE + render_table(SOURCE_OPTIONS) + SOURCE_COLUMNS
    sink = SINK + render_table(SINK_OPTIONS) + SINK_COLUMNS
    return "".join((INTRODUCTION, source, sink, SHARED, render_table(SHARED_OPTIONS)))


if __name__ == "__main__":
    from generated_document import write_or_check  # type: ignore[import-not-found] # it lies beside this script

    sys.exit(write_or_check(DOCUMENT, render(), __doc__))
