"""Partitions are those that Kafka's own clients choose."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from eagleray.client.producer.partitioner import StickyPartition, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_of_kafkas_own_tests(key: bytes, signed: int):
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=100))
def test_murmur2_agrees_with_kafka_python(key: bytes):
    assert murmur2(key) == murmur2_of_kafka_python(key) % 2**32


@given(st.binary(max_size=40), st.integers(1, 200))
def test_a_key_always_has_the_same_partition_within_range(key: bytes, partitions: int):
    chosen = partition_for_key(key, partitions)

    assert 0 <= chosen < partitions
    assert chosen == partition_for_key(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions


def test_keyless_records_stay_on_a_partition_for_a_batch_and_then_spread():
    sticky = StickyPartition()
    runs = [[sticky.choose(8, 100, 1000) for _ in range(10)] for _ in range(200)]

    assert all(len(set(run)) == 1 for run in runs)
    assert set(Counter(run[0] for run in runs)) == set(range(8))


def test_a_topic_that_was_made_anew_with_fewer_partitions_gets_another_choice():
    sticky = StickyPartition()
    while sticky.choose(100, 1000, 1000) < 2:
        pass

    assert sticky.choose(1, 1, 1000) == 0
