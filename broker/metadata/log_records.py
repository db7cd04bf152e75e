"""The format of the metadata log, which is our own, for changes and for whole images.

A record is one change, or one image, which stands for everything before it. The changes of one append are the records
of one batch, so that the log has all of them or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage

MetadataRecord: TypeAlias = Change | MetadataImage

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[MetadataRecord]] = msgspec.msgpack.Decoder(MetadataRecord)


def encode_changes(changes: Iterable[Change]) -> list[bytes]:
    """Return the records of one append, in order."""
    return [_ENCODER.encode(change) for change in changes]


def encode_image(image: MetadataImage) -> bytes:
    """Return a whole image as one record."""
    return _ENCODER.encode(image)


def decode_record(record: bytes) -> MetadataRecord:
    """Return the change or the image that a record holds."""
    return _DECODER.decode(record)


def is_image(record: bytes) -> bool:
    """Whether a record holds a whole image."""
    return isinstance(decode_record(record), MetadataImage)


def replay(records: Iterable[bytes], image: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    """Return the image that the records of a log lead to, in one pass, from an earlier image or from nothing."""
    changes: list[Change] = []
    for record in map(_DECODER.decode, records):
        if isinstance(record, MetadataImage):
            image = record
            changes.clear()
        else:
            changes.append(record)
    return image.apply(changes)
