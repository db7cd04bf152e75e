"""Makes the corpus: for each mutation the first input that catches it, cut down to what that takes.

python -m tests.fuzz.minimising [the names of mutations]

Run it where the making of frames has changed, so that what inputs mean is another thing than before.
"""

import logging
import sys
from collections.abc import Callable
from random import Random

from tests.fuzz.__main__ import inputs
from tests.fuzz.mutations import CORPUS, MUTATIONS, Mutation, entry_of
from tests.fuzz.targets import TARGETS

MOST_INPUTS = {"kafka_server": 100, "direct_lane": 100, "small_files": 2000}


MOST_TRIES = 12
LEAST_PIECE_BYTES = 200


def is_caught(target_name: str, mutation: Mutation, data: bytes) -> bool:
    """Whether an input breaks a node with one rule broken."""
    with mutation():
        return breaks(target_name, data)


def breaks(target_name: str, data: bytes) -> bool:
    """Whether an input breaks something on a target of its own."""
    try:
        target = TARGETS[target_name]()
        target(data)
        target.close()
    except AssertionError:
        return True
    return False


def first(target_name: str, mutation: Mutation) -> bytes | None:
    """The first input that catches a mutation."""
    for seed in range(MOST_INPUTS[target_name]):
        data = inputs(Random(seed))
        if is_caught(target_name, mutation, data):
            return data
    return None


def minimised(data: bytes, catches: Callable[[bytes], bool]) -> bytes:
    """Leave out of an input whatever it does not need: ever smaller pieces, as long as some can go."""
    size = len(data) // 2
    for _ in range(MOST_TRIES):
        if size < LEAST_PIECE_BYTES:
            break
        pieces = range(len(data) - size, -1, -size)
        position = next((each for each in pieces if catches(data[:each] + data[each + size :])), None)
        if position is None:
            size //= 2
        else:
            data = data[:position] + data[position + size :]
    return data


def main() -> None:
    """Make the entries that are asked for, or all."""
    logging.disable()
    for target_name, mutations in MUTATIONS.items():
        for name, mutation in mutations.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            found = first(target_name, mutation)
            if found is None:
                print(f"{target_name}: {name} is caught by none of {MOST_INPUTS[target_name]} inputs")
                continue
            small = minimised(found, lambda data, m=mutation, t=target_name: is_caught(t, m, data))
            path = CORPUS / entry_of(target_name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(small)
            print(f"{target_name}: {name}: {len(found)} bytes, {len(small)} of them needed", flush=True)


if __name__ == "__main__":
    main()
