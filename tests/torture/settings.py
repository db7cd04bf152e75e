"""What a torture is asked for, and what its client processes are told."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from eagleray.broker.metadata.image import MetadataImage
from tests.support.history import Transform

SOURCE, TARGET, GROUP = "orders", "invoices", "billing"
TRANSFORM = Transform(GROUP, SOURCE, TARGET)

TRANSACTION_TIMEOUT_MS = 10_000
"""What a client that was killed has left open is aborted after this at the latest."""


class TortureSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How hard to torture, for how long, and what chance decides about."""

    seconds: Annotated[float, Meta(ge=5, le=86_400)] = 120
    fewest_faults: Annotated[int, Meta(ge=0)] = 0
    """It goes on for longer until so many faults were injected, however slow the machine is."""

    seed: Annotated[int, Meta(ge=0)] = 0
    machines: Literal[1, 3] = 1
    """With several, everything has a replica on each, and of all but the first a whole one may be lost."""

    layout: Literal["separate", "colocated"] = "separate"
    clients: Annotated[int, Meta(ge=2, le=16)] = 3
    writers: Annotated[int, Meta(ge=1, le=200)] = 8
    """Producers in each client process, beside the transforming ones."""

    partitions: Annotated[int, Meta(ge=1, le=64)] = 4
    transactions_per_second: Annotated[float, Meta(gt=0, le=100)] = 3
    """Of each writer, at most."""

    pause_s: Annotated[float, Meta(ge=0.1, le=600)] = 2.0
    """Between two faults, on average."""

    settle_s: Annotated[float, Meta(ge=10, le=3_600)] = 120
    """How long the end may take: clients stop, nodes are back, every transaction is decided."""

    def checked(self) -> TortureSettings:
        """Raise msgspec.ValidationError for a value out of its range."""
        return msgspec.convert(msgspec.to_builtins(self), TortureSettings)


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one client process is told."""

    number: int
    incarnation: int
    is_wild: bool
    """Whether its producers now and then abandon what they have begun, and take over from themselves."""

    seed: int
    history_path: str
    token: bytes
    image: MetadataImage
    writers: int
    transactions_per_second: float
    source_partitions: int
    transform_partitions: tuple[int, ...]
    """The partitions of the source that this client transforms."""
