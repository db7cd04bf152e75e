"""Control records: the markers by which a broker ends transactions in the log of a partition.

A marker is the only record of its batch. Its key is two int16s, version and type; its value is an int16
version and, for the end of a transaction, the int32 epoch of the coordinator that decided it.
"""

from __future__ import annotations

import enum
import struct

import msgspec

from eagleray.protocol.errors import InvalidRecord

CONTROL_KEY = struct.Struct(">hh")
MARKER_VALUE = struct.Struct(">hi")
CONTROL_KEY_VERSION = 0
MARKER_VALUE_VERSION = 0

# The one record of a marker as every broker writes it: its length and three zeros, the key behind its own length, the
# value behind its own, and no headers.
_USUAL_RECORD = struct.Struct(">IB hh B hi B")
_USUAL_BEGINNING = 2 * 16 << 24


class ControlType(enum.IntEnum):
    """The control types that end a transaction. Others exist (for a quorum's own log) and are skipped."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a producer's transaction, and the epoch of the coordinator that decided it."""

    commit: bool
    coordinator_epoch: int

    @property
    def control_type(self) -> ControlType:
        """The type that stands in the key of the control record."""
        return ControlType.COMMIT if self.commit else ControlType.ABORT


def decode_control_type(key: bytes | None) -> int:
    """Return the type of a control record, known or not."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise InvalidRecord("the key of a control record is too short for a version and a type")
    version, control_type = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"a control record has key version {version}")
    return int(control_type)


def decode_usual_marker(record: memoryview) -> EndTransactionMarker | None:
    """Return the marker in an encoded record without taking the record apart; None where it is not the usual one."""
    if len(record) != _USUAL_RECORD.size:
        return None
    (
        beginning,
        key_length,
        key_version,
        control_type,
        value_length,
        value_version,
        coordinator_epoch,
        header_count,
    ) = _USUAL_RECORD.unpack(record)
    is_usual = (
        beginning == _USUAL_BEGINNING
        and key_length == 2 * CONTROL_KEY.size
        and value_length == 2 * MARKER_VALUE.size
        and not (key_version or value_version or header_count)
        and 0 <= control_type <= 1
    )
    return EndTransactionMarker(control_type == ControlType.COMMIT, coordinator_epoch) if is_usual else None


def decode_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """Return the marker in a control record, None when the control record is of another type.

    Later versions may append fields, so bytes past the known ones are skipped.
    """
    control_type = decode_control_type(key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < MARKER_VALUE.size:
        raise InvalidRecord("the value of a transaction marker is too short for its coordinator epoch")
    version, coordinator_epoch = MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"a transaction marker has version {version}")
    return EndTransactionMarker(control_type == ControlType.COMMIT, coordinator_epoch)
