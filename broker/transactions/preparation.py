"""What is kept of a transactional id besides, where transactions are prepared or completed by their token."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from eagleray.broker.checked_file import CANNOT_DECODE
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.protocol.codec import MalformedMessage
from eagleray.protocol.messages.transaction_log import TransactionLogValue

PREPARATION_VERSION: Final = 1
NOT_PREPARED_MS: Final = -1
NOT_ASKED_MS: Final = -1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a producer that takes part in a two-phase commit, as Kafka writes it: its transactions have none."""


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How the transaction with this token has ended."""

    producer_id: int
    epoch: int
    commit: bool

    def is_of(self, token: ProducerIdentity) -> bool:
        """Whether the token is that of the transaction."""
        return token.producer_id == self.producer_id and token.epoch == self.epoch


class Preparation(msgspec.Struct, frozen=True, array_like=True):
    """The preparation of the transaction at hand, and the outcome of the last one that was prepared.

    New fields go to the end, with defaults: records that lack them stay readable, and so do records that have more.
    """

    prepared_ms: int = NOT_PREPARED_MS
    """Since when the transaction at hand is prepared."""

    context: bytes = b""
    """What its producer wants to be told when the transaction is found again."""

    branches: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()
    """The producer ids of the branches that a commit commits, ascending."""

    next_timeout_ms: int | None = None
    """The timeout of the transactions to come, where another producer has kept the one at hand; that has its own."""

    outcome: Outcome | None = None
    """How the last transaction ended that was prepared, or completed by its token, however long ago."""

    resolver: ResolverName | None = None
    """Who may be asked how the transaction at hand has to end, if anyone may."""

    questions: int = 0
    """How often the resolver was asked."""

    asked_ms: int = NOT_ASKED_MS
    """When it was asked last, by which the producer lost the transaction; below zero while a producer has it."""

    @property
    def is_prepared(self) -> bool:
        """Whether the transaction at hand is prepared, or was until it was decided."""
        return self.prepared_ms != NOT_PREPARED_MS

    def remembering(self, token: ProducerIdentity, *, commit: bool) -> Preparation:
        """The decision, of which those who hold the token may want to hear later."""
        return replace(self, outcome=Outcome(token.producer_id, token.epoch, commit))

    def when_completed(self) -> Preparation | None:
        """Every marker is written: what is left to remember, if anything is."""
        return None if self.outcome is None else Preparation(outcome=self.outcome)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Preparation)


def encode_preparation(preparation: Preparation | None) -> bytes:
    """Give the bytes that keep a preparation, a version in one byte and then msgpack; none where there is none."""
    return b"" if preparation is None else bytes([PREPARATION_VERSION]) + _encoder.encode(preparation)


def decode_preparation(data: bytes) -> Preparation | None:
    """Read a preparation. Raises MalformedMessage."""
    if not data:
        return None
    if data[0] != PREPARATION_VERSION:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"no preparation is known in version {data[0]}")
    try:
        return _decoder.decode(data[1:])
    except CANNOT_DECODE as error:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"its preparation is unreadable: {error}") from error
