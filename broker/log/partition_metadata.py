"""Kafka's partition.metadata: which topic the files of a partition's directory are of."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

_CONTENT: Final = re.compile(rb"version: 0\s+topic_id: ([A-Za-z0-9_-]{22})\s*")


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Return the bytes of the file."""
    return f"version: 0\ntopic_id: {_text_of(topic_id)}\n".encode()


def decode_partition_metadata(data: bytes) -> bytes | None:
    """Return the topic id that a file names; None where it holds what no version has written."""
    found = _CONTENT.fullmatch(data)
    if found is None:
        return None
    try:
        topic_id = base64.urlsafe_b64decode(found[1] + b"==")
    except binascii.Error:
        return None
    # The last character of an id has bits that mean nothing, and are never set where they were written.
    return topic_id if _text_of(topic_id).encode() == found[1] else None


def _text_of(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
