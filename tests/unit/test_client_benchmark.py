"""The table of `make bench-client`: who takes turns with whom, what is counted, and which keys are sent."""

import argparse
from itertools import islice

import pytest

from benchmarks.client.__main__ import PAIRS, chosen
from benchmarks.client.comparing import HEADING, Pair, Round, Scale, measure, row_of
from benchmarks.client.consumers import Meter
from benchmarks.client.producers import distinct_keys, few_keys, no_keys
from eagleray.client.producer.partitioner import _KEPT_KEYS

SCALE = Scale(seconds=0.05, records=1000)


def test_clients_take_turns_and_each_is_first_in_every_other_round():
    order = []
    pair = Pair("a", lambda *_: order.append("ours") or 2.0, lambda *_: order.append("theirs") or 4.0)
    assert measure(pair, None, SCALE, rounds=3) == [Round(2.0, 4.0)] * 3
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_row_has_the_median_of_the_ratios_and_not_the_ratio_of_the_medians():
    row = row_of("produce", [Round(1000.0, 1000.0), Round(2000.0, 500.0), Round(3000.0, 6000.0)])
    assert row == ["produce", "2,000", "1,000", "1.00", "1.00 4.00 0.50"]
    assert len(row) == len(HEADING)


def test_rate_of_a_consumer_counts_from_its_first_records_on():
    meter = Meter(1500)
    assert meter.read(0, now_s=5.0)
    assert meter.read(500, now_s=10.0)
    assert meter.read(500, now_s=10.5)
    assert not meter.read(500, now_s=12.0)
    assert meter.rate() == 1000 / 2


def test_keys_are_none_few_or_each_once():
    assert set(islice(no_keys(1), 10)) == {None}
    assert len(set(islice(few_keys(1), 50_000))) < _KEPT_KEYS, "all of them are remembered"
    distinct = list(distinct_keys(SCALE.seconds))
    assert len(set(distinct)) == len(distinct) > 2 * _KEPT_KEYS, "none of them helps the next one"


def test_row_that_there_is_not_is_refused_with_those_that_there_are(capsys):
    parser = argparse.ArgumentParser()
    assert chosen(parser, []) == [*PAIRS.values()]
    assert [pair.name for pair in chosen(parser, ["consume, poll"])] == ["consume, poll"]
    with pytest.raises(SystemExit):
        chosen(parser, ["nothing"])
    assert "there is no row 'nothing'; there are: produce, no keys" in capsys.readouterr().err
