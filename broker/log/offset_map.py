"""From a key to the newest offset that carries it: what a compaction knows of the dirty part of a log."""

from __future__ import annotations

from hashlib import blake2b

DEFAULT_MAX_KEYS = 250_000
"""About 40 MB in memory, whatever the size of the keys."""

_DIGEST_BYTES = 16
_NO_OFFSET = -1


class OffsetMap:
    """The newest offset of each key, in memory that the number of keys bounds and their size does not.

    A key of 16 bytes or more is known by a 16-byte digest, which no two keys share in practice; a shorter one is its
    own name, and cannot be taken for a digest.
    """

    __slots__ = ("_max_keys", "_newest_offsets")

    def __init__(self, max_keys: int = DEFAULT_MAX_KEYS) -> None:
        if max_keys < 1:
            raise ValueError(f"a map of {max_keys} keys could not make progress; expected at least one")
        self._max_keys = max_keys
        self._newest_offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._newest_offsets)

    @property
    def is_full(self) -> bool:
        """Whether the map has as many keys as it may; one more batch would take it beyond."""
        return len(self._newest_offsets) >= self._max_keys

    def put(self, key: bytes, offset: int) -> None:
        """Note that `key` is at `offset`, which lies behind all offsets noted before."""
        self._newest_offsets[_name_of(key)] = offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a record at `offset` has a younger one with the same key."""
        return offset < self._newest_offsets.get(_name_of(key), _NO_OFFSET)


def _name_of(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
