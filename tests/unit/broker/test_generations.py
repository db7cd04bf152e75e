"""Of a file in two generations the newest counts, and one that is gone is not taken for one that was never written."""

import msgspec
import pytest

from eagleray.broker.generations import SECOND_SUFFIX, read_generations, write_generation
from tests.support.simulated_disk import SimulatedDisk

PATH = "/node/file"
PATHS = (PATH, PATH + SECOND_SUFFIX)


class Kept(msgspec.Struct):
    sequence: int


def decode(data: bytes) -> Kept | None:
    return Kept(int(data)) if data.isdigit() else None


def disk_with(generations: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories("/node")
    for sequence in range(1, generations + 1):
        write_generation(disk, PATH, sequence, b"%d" % sequence)
    return disk


@pytest.mark.parametrize("generations", range(5))
def test_newest_generation_counts(generations: int) -> None:
    found = read_generations(disk_with(generations), PATH, decode)
    assert (0 if found.newest is None else found.newest.sequence, found.damaged) == (generations, 0)


@pytest.mark.parametrize("generations", [2, 3, 4])
@pytest.mark.parametrize("gone", PATHS)
def test_generation_that_is_gone_counts_as_damaged(generations: int, gone: str) -> None:
    disk = disk_with(generations)
    newest_is_gone = gone == PATHS[(generations - 1) % 2]
    disk.remove(gone)
    found = read_generations(disk, PATH, decode)
    assert found.newest is not None
    assert found.newest.sequence == generations - newest_is_gone
    # The first generation is alone for a while, as the second is not there yet.
    assert found.damaged == (found.newest.sequence > 1)


def test_file_of_an_earlier_release_is_alone_and_whole() -> None:
    disk = disk_with(0)
    write_generation(disk, PATH, 1, b"0")
    assert read_generations(disk, PATH, decode).damaged == 0
