"""Recognises the first bytes of a connection that does not speak Kafka's protocol."""

from __future__ import annotations

from typing import Final

from eagleray.actors.lanes.frames import MAGIC

FIRST_BYTES: Final = 4
"""So many bytes tell the direct lane, Kafka's protocol and the usual mistakes apart."""

DIRECT_LANE: Final = MAGIC

_HTTP: Final = frozenset(
    {b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI ", b"HTTP"}
)


def other_protocol(data: bytes) -> tuple[str, str] | None:
    """Return a kind and a sentence about a peer that begins like this, or None where it may speak Kafka's protocol."""
    first = data[:FIRST_BYTES]
    if first in _HTTP:
        return "http", "it sent an HTTP request, but this port speaks Kafka's protocol"
    if data[0] == 0x16 and data[1] == 0x03:
        return "tls", "it sent a TLS handshake, but this port is plain text; use security.protocol=PLAINTEXT"
    if first == b"SSH-":
        return "ssh", "it wants to speak SSH, but this port speaks Kafka's protocol"
    return None
