"""Authorized operations, as bits of Kafka's operation codes; without access control, all that there are."""

from __future__ import annotations

import enum
from typing import Final


class Operation(enum.IntEnum):
    """Kafka's codes for the operations of access rules."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_Op = Operation

CLUSTER_OPERATIONS: Final = _bits(
    _Op.CREATE,
    _Op.ALTER,
    _Op.DESCRIBE,
    _Op.CLUSTER_ACTION,
    _Op.DESCRIBE_CONFIGS,
    _Op.ALTER_CONFIGS,
    _Op.IDEMPOTENT_WRITE,
)
TOPIC_OPERATIONS: Final = _bits(
    _Op.READ,
    _Op.WRITE,
    _Op.CREATE,
    _Op.DELETE,
    _Op.ALTER,
    _Op.DESCRIBE,
    _Op.DESCRIBE_CONFIGS,
    _Op.ALTER_CONFIGS,
)
GROUP_OPERATIONS: Final = _bits(_Op.READ, _Op.DELETE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS)

NOT_ASKED_FOR: Final = -0x80000000
"""In place of the bits where a client has not asked for them."""
