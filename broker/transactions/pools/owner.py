"""The owner of a slot as bytes, for a tagged field of a transaction log record."""

from __future__ import annotations

from struct import Struct as Packing
from typing import Final

from eagleray.broker.identities import ProducerIdentity
from eagleray.protocol.codec import MalformedMessage
from eagleray.protocol.messages.transaction_log import TransactionLogValue

OWNER_VERSION: Final = 1
_OWNER: Final = Packing(">bqh")
OWNER_BYTES: Final = _OWNER.size


def encode_owner(owner: ProducerIdentity | None) -> bytes:
    """Give the bytes that keep the owner of a slot: a version, its producer id, its epoch; none for any other id."""
    return b"" if owner is None else _OWNER.pack(OWNER_VERSION, owner.producer_id, owner.epoch)


def decode_owner(data: bytes) -> ProducerIdentity | None:
    """Read the owner of a slot. Raises MalformedMessage."""
    if not data:
        return None
    if data[0] != OWNER_VERSION or len(data) != OWNER_BYTES:
        raise MalformedMessage(TransactionLogValue.__name__, None, f"no owner of a slot is known as {data.hex()}")
    _, producer_id, epoch = _OWNER.unpack(data)
    return ProducerIdentity(producer_id, epoch)
