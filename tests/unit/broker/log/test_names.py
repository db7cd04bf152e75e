"""File names as Kafka writes them."""

import pytest

from eagleray.broker.log import names


def test_names_carry_the_offset_in_twenty_digits() -> None:
    path = names.segment_file("/data/orders-0", 368769, names.LOG_SUFFIX)
    assert path == "/data/orders-0/00000000000000368769.log"


@pytest.mark.parametrize("offset", [0, 1, 2**63 - 1])
@pytest.mark.parametrize("suffix", [names.LOG_SUFFIX, names.SNAPSHOT_SUFFIX, ".log.swap", *names.INDEX_SUFFIXES])
def test_the_offset_is_read_back(offset: int, suffix: str) -> None:
    name = names.segment_file("", offset, suffix).removeprefix("/")
    assert names.base_offset_of(name) == offset


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition-checkpoint",
        "",
        "0.log",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "0000000000000000000x.log",
        "-0000000000000000001.log",
        "²" * 20 + ".log",
    ],
)
def test_other_names_have_no_offset(name: str) -> None:
    assert names.base_offset_of(name) is None
