"""Pipelines to run and to copy from: `eagleray pipeline example NAME`.

Each is one short module with a function that makes the pipeline, and one that runs it on generated orders and checks
what came out against totals that no pipeline has computed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from eagleray.pipelines.examples.stage import Example

EXAMPLES: Final = {
    "revenue": "Stateful aggregation: revenue per country and minute, kept up to date in a topic.",
    "enrichment": "Join of a stream and a table: orders with the merchant's name, and the fee for each.",
    "handover": "Spark to Ray: features written by Spark, read by Ray tasks and Ray Data as they were committed.",
}


def example(name: str) -> Example:
    """Load an example by its name."""
    run: Example = importlib.import_module(f"{__name__}.{name}").run
    return run
