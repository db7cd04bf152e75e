"""The responses of one connection, on their way out in the order of its requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from eagleray.protocol.codec import Buffer

if TYPE_CHECKING:
    from asyncio import Transport

    from eagleray.actors.kafka_server.call import Call


class Responses:
    """Puts responses into the order of the requests, and says how many bytes of them there are.

    Owns: the calls without a response, those whose response waits for an earlier one, and the bytes that can be sent.
    """

    __slots__ = ("_has_large_records", "_out", "calls", "out_bytes", "overtaking_bytes")

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()
        self._out: list[Buffer] = []
        self._has_large_records = False
        self.out_bytes = 0
        """Of responses that can be sent."""
        self.overtaking_bytes = 0
        """Of responses that are ready before the one to an earlier request."""

    @property
    def are_ready(self) -> bool:
        """Whether there is something to send."""
        return bool(self._out)

    def answered(self, call: Call) -> list[Call]:
        """Take a response; return the calls whose responses can be sent now, which may be none."""
        calls = self.calls
        ready: list[Call] = []
        if calls[0] is not call:
            self.overtaking_bytes += call.encoded_bytes
            return ready
        while calls and calls[0].is_answered:
            first = calls.popleft()
            ready.append(first)
            encoded = first.encoded
            if isinstance(encoded, bytes):
                size_bytes = len(encoded)
                self._out.append(encoded)
            else:
                size_bytes = first.encoded_bytes
                self._out += encoded
                self._has_large_records = True
            self.out_bytes += size_bytes
            if first is not call:
                self.overtaking_bytes -= size_bytes
        return ready

    def write_to(self, transport: Transport) -> None:
        """Send what can be sent with one write."""
        out, self._out, self.out_bytes = self._out, [], 0
        if self._has_large_records:
            self._has_large_records = False
            transport.writelines(out)
        else:
            transport.write(out[0] if len(out) == 1 else b"".join(out))

    def clear(self) -> None:
        """Forget everything: the peer is gone."""
        self.calls.clear()
        self._out = []
        self.out_bytes = self.overtaking_bytes = 0
