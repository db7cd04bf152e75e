"""One group with a member by handles and a member by librdkafka, which is told group.protocol=consumer."""

import time
from collections import Counter

from confluent_kafka import Consumer as LibrdkafkaConsumer

from tests.support.group_flavours import group_world

LIMIT_S = 60


def test_handles_and_librdkafka_share_a_group(tmp_path):
    with group_world(tmp_path, "blocking") as world:
        world.sync.admin.create_topic("orders", partitions=4)
        nodes = world.cluster.runtime.view.image.nodes.values()
        theirs = LibrdkafkaConsumer(
            {
                "bootstrap.servers": ",".join(f"{node.host}:{node.port}" for node in nodes),
                "group.id": "one",
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        theirs.subscribe(["orders"])
        deadline_s = time.monotonic() + LIMIT_S
        with world.consumer("orders", group="one") as ours:
            while len(ours.assignment()) != 2 or len(theirs.assignment()) != 2:
                assert time.monotonic() < deadline_s, (ours.assignment(), theirs.assignment())
                ours.poll(20)
                theirs.consume(1, 0.02)
            shared = [(each.topic, each.partition) for each in theirs.assignment()]
            shared += [(each.topic, each.partition) for each in ours.assignment()]
            assert sorted(shared) == [("orders", number) for number in range(4)]
            world.fill("orders", 100, 4)
            by_us, by_them = [], []
            while len(by_us) + len(by_them) < 100:
                assert time.monotonic() < deadline_s, (len(by_us), len(by_them))
                by_us += [record.value for record in ours.poll(20)]
                by_them += [message.value() for message in theirs.consume(100, 0.02)]
            assert Counter(by_us + by_them) == Counter(b"%d" % number for number in range(100))
            assert len(by_us) == len(by_them) == 50
            theirs.close()
            while len(ours.assignment()) != 4:
                assert time.monotonic() < deadline_s, ours.assignment()
                ours.poll(20)
