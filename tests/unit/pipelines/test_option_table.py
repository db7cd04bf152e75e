"""The table of options is whole, and what it says of itself is true."""

from collections import Counter

import pytest

from eagleray.pipelines.options import SinkOptions, SourceOptions
from eagleray.pipelines.options.table import (
    SHARED_OPTIONS,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    Option,
    options_of,
    render_table,
)

NEEDED = {
    "source": {"subscribe": "orders"},
    "sink": {},
}
# What an option needs beside it, and which excludes what else is needed.
EXCLUDING = {"subscribePattern", "assign"}
BESIDE = {
    "startingOffsetsByTimestampStrategy": {"startingTimestamp": "1"},
    "maxTriggerDelay": {"minOffsetsPerTrigger": "1"},
    "group": {"checkpointLocation": "/data/checkpoint"},
}
PARSERS = {"source": SourceOptions, "sink": SinkOptions}

CASES = [(side, option) for side in PARSERS for option in options_of(side).values()]


def parse(side: str, options: dict[str, str], option: Option):
    needed = {} if EXCLUDING & options.keys() else NEEDED[side]
    given = {**needed, **BESIDE.get(option.name, {}), **options}
    return PARSERS[side].parse(given, streaming=option.query == "streaming")


@pytest.mark.parametrize(("side", "option"), CASES, ids=lambda each: getattr(each, "name", each))
def test_every_example_is_taken_and_makes_a_difference(side: str, option: Option):
    assert parse(side, {option.name: option.example}, option) != parse(side, {}, option)


@pytest.mark.parametrize(("side", "option"), CASES, ids=lambda each: getattr(each, "name", each))
def test_every_default_is_what_leaving_it_out_means(side: str, option: Option):
    default = option.default_for(streaming=option.query == "streaming")
    if default is not None:
        assert parse(side, {option.name: default}, option) == parse(side, {}, option)


@pytest.mark.parametrize("side", PARSERS)
def test_every_name_is_there_once_whatever_its_case(side: str):
    names = [name.lower() for option in options_of(side).values() for name in (option.name, *option.aliases)]
    assert max(Counter(names).values()) == 1
    own = {"source": SOURCE_OPTIONS, "sink": SINK_OPTIONS}[side]
    assert len(options_of(side)) == len(own) + len(SHARED_OPTIONS)


OPTIONS = (*SOURCE_OPTIONS, *SINK_OPTIONS, *SHARED_OPTIONS)


def test_the_table_has_a_row_for_each_option():
    rows = render_table(OPTIONS).splitlines()

    assert len(rows) == 2 + len(OPTIONS)
    assert all(row.count(" | ") == 4 for row in rows)
    assert any("`isolation`, also `kafka.isolation.level`" in row for row in rows)
    assert any("batch `earliest`, streaming `latest`" in row for row in rows)
