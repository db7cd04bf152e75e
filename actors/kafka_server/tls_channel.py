"""The server's end of a TLS connection, as bytes in and bytes out."""

from __future__ import annotations

import ssl
from typing import Final

from eagleray.protocol.records import BytesLike

_READ_BYTES: Final = 256 * 1024


class TlsChannel:
    """Turns what the peer has sent into what it means, and what it is to be told into what is sent.

    It knows no socket and no loop. Raises ssl.SSLError where the peer breaks the rules; `take_outgoing` then has what
    tells it so.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_open = False
        """Whether the handshake is done."""
        self.is_over = False
        """Whether the peer has said that nothing more comes."""

    def receive(self, data: bytes) -> bytes:
        """Take what has come; return what of it is for the application."""
        self._incoming.write(data)
        if not self.is_open and not self._shake_hands():
            return b""
        return self._read()

    def _shake_hands(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_open = True
        return True

    def _read(self) -> bytes:
        parts = []
        try:
            while part := self.tls.read(_READ_BYTES):
                parts.append(part)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send(self, data: BytesLike) -> None:
        """Encrypt what the peer is to be told."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.tls.write(rest) :]

    def say_goodbye(self) -> None:
        """Tell the peer that nothing more comes."""
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            # It has not said so itself yet, and nothing waits for that.
            return

    def take_outgoing(self) -> bytes:
        """Return what is to be sent now."""
        return self._outgoing.read()
