"""The targets by their names."""

from collections.abc import Callable
from typing import Final, Protocol

from tests.fuzz.direct_lane import DirectLaneTarget
from tests.fuzz.kafka_server import KafkaServerTarget
from tests.fuzz.small_files import SmallFilesTarget


class Target(Protocol):
    """Takes inputs, and raises where an invariant is broken."""

    frames: int
    """How many frames, or files, it has been given."""

    def __call__(self, data: bytes) -> None:
        """Take an input."""

    def close(self) -> None:
        """Put away what it has kept from one input to the next."""


TARGETS: Final[dict[str, Callable[[], Target]]] = {
    "kafka_server": KafkaServerTarget,
    "direct_lane": DirectLaneTarget,
    "small_files": SmallFilesTarget,
}
