"""docs/api.md has an example of every public method, and tests/docs runs them."""

import ast
import inspect
import re

import pytest

import eagleray
import eagleray.aio
from tests.support.pages import REPOSITORY, blocks_of

CALLED = {
    eagleray.Cluster: "cluster",
    eagleray.Producer: "producer",
    eagleray.Consumer: "consumer",
    eagleray.Admin: "admin",
    eagleray.Transaction: "transaction",
    eagleray.BranchWriter: "writer",
    eagleray.TransactionPool: "pool",
    eagleray.PooledTransaction: "txn",
    eagleray.Delivery: "sent",
    eagleray.RecordBatch: "batch",
}
"""What an object of each class is called on the page."""

ON_A_LOOP = {
    eagleray.aio.Cluster: "cluster",
    eagleray.aio.Producer: "producer",
    eagleray.aio.Consumer: "consumer",
    eagleray.aio.Admin: "admin",
    eagleray.aio.Transaction: "transaction",
    eagleray.aio.BranchWriter: "writer",
    eagleray.aio.TransactionPool: "pool",
    eagleray.aio.PooledTransaction: "txn",
}
"""The same on an event loop: the page shows what they have beside the others."""

INTERNAL = {
    ("cluster", "connect"),  # by the ports of tests
    ("cluster", "make_consumer"),  # by the cluster for threads
    # By the consumer for threads, which calls the application back in the thread that polls:
    ("consumer", "rebalance_ends"),
    ("consumer", "read_ahead"),
    ("consumer", "take_ahead"),
    ("consumer", "ahead"),
    ("consumer", "unsubscribe_begins"),
    ("consumer", "unsubscribe_ends"),
    ("consumer", "close_begins"),
    ("consumer", "close_ends"),
    ("producer", "abandon"),  # by the loop, when it ends
    ("producer", "abort_because"),  # by blocks of transactions
    ("producer", "forked"),  # by the loop, in a process that was forked
    ("pool", "abandon"),
    ("pool", "forked"),
    # By its blocks, and those of its transactions:
    ("pool", "failure"),
    ("pool", "give_back"),
    ("pool", "take_over"),
    ("pool", "take_slot"),
    ("txn", "producer"),
    ("producer", "sender"),  # by the producer for threads
    ("producer", "send_prepared"),
    ("sent", "ending"),  # by the methods of a delivery
    ("sent", "index"),
    ("sent", "timestamp"),
    # By Spark's source, and by what reads the log:
    ("batch", "columns"),
    ("batch", "end_transaction_marker"),
    ("batch", "records_block"),
    ("batch", "verify_crc"),  # scan has done it
    ("batch", "view"),
    ("writer", "abandon"),
    ("transaction", "remembered"),  # by Spark's sink, which compares it with the checkpoint
    ("writer", "send_prepared"),  # by Spark's sink, with batches in the columnar codec's form
}


def calls() -> set[tuple[str, str]]:
    """What the page's Python calls: the name of an object, and of a method."""
    found = set()
    for block in blocks_of("docs/api.md"):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    found.add((node.value.id, node.attr))
    return found


def methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def own_methods(kind: type, name: str) -> set[tuple[str, str]]:
    """All but what a branch's writer has of a producer, which the page shows with a producer."""
    of_producer = [base for base in (eagleray.Producer, eagleray.aio.Producer) if issubclass(kind, base)]
    inherited = set().union(*(methods(base) for base in of_producer if base is not kind))
    return {(name, method) for method in methods(kind) - inherited}


@pytest.mark.parametrize(
    ("kind", "name"), [*CALLED.items(), *ON_A_LOOP.items()], ids=lambda value: getattr(value, "__qualname__", value)
)
def test_public_method_has_an_example(kind: type, name: str):
    assert own_methods(kind, name) - INTERNAL - calls() == set()


def test_internal_methods_are_there():
    classes = [*CALLED.items(), *ON_A_LOOP.items()]
    assert {(name, method) for kind, name in classes for method in methods(kind)} >= INTERNAL


@pytest.mark.parametrize("module", [eagleray, eagleray.aio])
def test_exported_name_is_on_the_page(module: object):
    words = set(re.findall(r"\w+", (REPOSITORY / "docs/api.md").read_text()))
    assert set(module.__all__) - words == set()
