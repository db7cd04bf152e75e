"""What is where in a simulated cluster: its topics and partitions, and the groups that read them."""

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE

SOURCE = "orders"
TARGET = "shipments"
INPUTS = (TopicPartition(SOURCE, 0), TopicPartition(SOURCE, 1))
"""What producers write, and what is transformed."""

OUTPUT = TopicPartition(TARGET, 0)
USER_PARTITIONS = (*INPUTS, OUTPUT)
TRANSACTIONS = TopicPartition(TRANSACTION_STATE, 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
COORDINATED = (TRANSACTIONS, OFFSETS)
"""What coordinators keep their state in; it is compacted."""

TRANSFORM_GROUP = "transform"
READING_GROUP = "read"

PASSING = "passing-"
"""What the names of topics begin with that come and go."""
