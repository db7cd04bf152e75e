"""Spark's Python daemon with the data source loaded, so that the workers that it forks have it from the start.

Spark runs a daemon for each kind of Python work, forks workers from it, and ends those that were idle for a minute.
What a daemon has loaded costs a worker nothing; loading it in each takes most of a second. `spark_session` sets
`spark.python.daemon.module` to this module.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import eagleray.pipelines.data_source  # noqa: F401 - for those who are forked


def main() -> None:
    """Fork workers as Spark asks for them."""
    # Workers collect garbage after every task; what they share with this process is not garbage.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
