"""The token of a prepared transaction, which a program keeps in the other system that takes part."""

from __future__ import annotations

import re
from typing import Final, Self

import msgspec

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.transactions.tokens import TOKEN_PREFIX, token_text
from eagleray.client.errors import InvalidArgument

_LAST_PRODUCER_ID: Final = 2**63 - 1
_FORM: Final = re.compile(
    rf"{TOKEN_PREFIX}\.(?P<name>(?:[A-Za-z0-9._-]|~[0-9a-f]{{2}})+)\.(?P<id>[0-9]{{1,19}})\.(?P<epoch>[0-9]{{1,5}})"
)
_ESCAPED: Final = re.compile("~([0-9a-f]{2})")
_EXPECTED: Final = f"'{TOKEN_PREFIX}.TRANSACTIONAL-ID.PRODUCER-ID.EPOCH', as str() of a PreparedTransaction gives it"


class PreparedTransaction(msgspec.Struct, frozen=True):
    """A prepared transaction, for those who may have to end it: picklable, and `str` fits a column of a database.

        db.execute("update outbox set token = %s", [str(prepared)])
        prepared = PreparedTransaction.parse(token)

    It is no secret: a program that has it and reaches the cluster may end the transaction by it. No two have the
    same.
    """

    transactional_id: str
    producer: ProducerIdentity
    """Who the records of the transaction are from."""

    def __str__(self) -> str:
        return token_text(self.transactional_id, self.producer)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the transaction that `str` has given this text; raises InvalidArgument for every other text."""
        try:
            found = _FORM.fullmatch(text)
        except TypeError:
            # A column of bytes, or one that is null.
            found = None
        if found is None:
            raise InvalidArgument(f"{text!r} names no prepared transaction; expected {_EXPECTED}.")
        name, producer = _unescape(found["name"]), ProducerIdentity(int(found["id"]), int(found["epoch"]))
        parsed = None if name is None else cls(name, producer)
        is_in_range = producer.producer_id <= _LAST_PRODUCER_ID and producer.epoch <= LAST_EPOCH
        if parsed is None or not is_in_range or str(parsed) != text:
            raise InvalidArgument(f"{text!r} was not written by str() of a PreparedTransaction; expected {_EXPECTED}.")
        return parsed


def _unescape(text: str) -> str | None:
    data = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text).encode("latin-1")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
