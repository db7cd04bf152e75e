"""The token of a prepared transaction as text, for columns of databases and for questions to resolvers."""

from __future__ import annotations

from typing import Final

from eagleray.broker.identities import ProducerIdentity

TOKEN_PREFIX: Final = "prepared-v1"  # noqa: S105 - it is no secret
_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def token_text(transactional_id: str, producer: ProducerIdentity) -> str:
    """Give a token without spaces, and without what has a meaning in a URL or in the text itself."""
    return f"{TOKEN_PREFIX}.{_escape(transactional_id)}.{producer.producer_id}.{producer.epoch}"


def _escape(name: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"~{byte:02x}" for byte in name.encode())
