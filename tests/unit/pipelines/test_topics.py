"""Which partitions a query reads, of the topics that there are."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options import OptionError
from eagleray.pipelines.options.topics import Assign, Selection, Subscribe, SubscribePattern, partitions_to_read

TOPICS = {"orders": 2, "orders-old": 1, "payments": 1, "__consumer_offsets": 1, "__transaction_state": 1}
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
OLD = [TopicPartition("orders-old", 0)]
PAYMENTS = [TopicPartition("payments", 0)]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Subscribe(("payments", "orders")), ORDERS + PAYMENTS),
        (Subscribe(("orders", "refunds")), ORDERS),
        (Subscribe(("__consumer_offsets",)), [TopicPartition("__consumer_offsets", 0)]),
        (SubscribePattern("orders"), ORDERS),
        (SubscribePattern("orders.*"), ORDERS + OLD),
        (SubscribePattern("orders|payments"), ORDERS + PAYMENTS),
        (SubscribePattern(".*"), ORDERS + OLD + PAYMENTS),
        (SubscribePattern("refunds"), []),
        (Assign((ORDERS[1], TopicPartition("orders", 2), TopicPartition("refunds", 0))), [ORDERS[1]]),
    ],
)
def test_chosen_partitions(selection: Selection, chosen: list[TopicPartition]):
    assert selection.choose(TOPICS) == chosen


@pytest.mark.parametrize(
    ("selection", "missing"),
    [
        (Subscribe(("orders", "refunds")), ["refunds"]),
        (SubscribePattern("refunds"), []),
        (Assign((ORDERS[1], TopicPartition("orders", 2), TopicPartition("refunds", 0))), ["orders-2", "refunds-0"]),
    ],
)
def test_missing_topics_are_named(selection: Selection, missing: list[str]):
    assert selection.missing(TOPICS) == missing


def test_a_query_begins_with_what_exists():
    assert partitions_to_read(Subscribe(("orders",)), TOPICS) == ORDERS
    assert partitions_to_read(SubscribePattern("refunds"), TOPICS) == []


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (
            Subscribe(("orders", "payment")),
            "^subscribe names payment, which .*Did you mean payments by payment.*Create it",
        ),
        (Subscribe(("zzz",)), "^subscribe names zzz, which the cluster does not have. Create it"),
        (
            Assign((TopicPartition("orders", 2),)),
            "^assign names orders-2, which .*Did you mean orders-[01] by orders-2",
        ),
    ],
)
def test_a_query_does_not_begin_with_what_does_not_exist(selection: Selection, said: str):
    with pytest.raises(OptionError, match=said):
        partitions_to_read(selection, TOPICS)
