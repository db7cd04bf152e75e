"""A stream of bytes, cut into frames: each a length (int32) and as many bytes."""

from __future__ import annotations

import struct

from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.records import BytesLike

LENGTH = struct.Struct(">i")
DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024


class InvalidFrame(ProtocolError):
    """A length that no frame has: the peer does not speak this protocol, and what follows cannot be told apart."""

    error_code = ErrorCode.INVALID_REQUEST


class FrameReader:
    """Takes what a connection receives and gives whole frames back, without their lengths.

    A frame that lies whole in what was received is a view of it and costs no copy. Nothing is allocated by a length
    that was only announced: memory grows with the bytes that came.
    """

    __slots__ = ("_max_frame_bytes", "_missing_bytes", "_parts", "buffered_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._parts: list[BytesLike] = []
        self._missing_bytes = 0
        self.buffered_bytes = 0
        """How much of an unfinished frame has come."""

    def is_one_frame(self, data: bytes) -> bool:
        """Whether `data` is exactly one whole frame, as it mostly is; who knows that need not feed it."""
        return (
            not self._parts
            and len(data) >= LENGTH.size
            and LENGTH.unpack_from(data)[0] == len(data) - LENGTH.size <= self._max_frame_bytes
        )

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the frames that `data` completes; raises InvalidFrame where a length cannot be one."""
        if self._parts:
            if len(data) < self._missing_bytes:
                self._parts.append(data)
                self._missing_bytes -= len(data)
                self.buffered_bytes += len(data)
                return []
            data = b"".join((*self._parts, data))
            self._parts = []
            self.buffered_bytes = 0
        return self._cut(memoryview(data))

    def _cut(self, view: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        position, end = 0, len(view)
        while position + LENGTH.size <= end:
            (length,) = LENGTH.unpack_from(view, position)
            if not 0 <= length <= self._max_frame_bytes:
                raise InvalidFrame(
                    f"a frame of {length} bytes was announced; at most {self._max_frame_bytes} are taken"
                )
            frame_end = position + LENGTH.size + length
            if frame_end > end:
                self._keep(view[position:], frame_end - end)
                return frames
            frames.append(view[position + LENGTH.size : frame_end])
            position = frame_end
        if position < end:
            self._keep(view[position:], LENGTH.size - (end - position))
        return frames

    def _keep(self, rest: memoryview, missing_bytes: int) -> None:
        # A copy, so that a few bytes of a frame do not keep a whole receive buffer alive.
        self._parts = [bytes(rest)]
        self._missing_bytes = missing_bytes
        self.buffered_bytes = len(rest)
