"""Faults that a simulated disk is told to have, each at one operation, and the record of what it was asked."""

import enum
import errno
import os

import msgspec


class ProcessKilled(BaseException):
    """The process died inside of a call to the disk.

    No Exception, because nothing that handles errors may go on working after it.
    """


class Operation(enum.Enum):
    """What a disk is asked to do; a file that is opened and was there already changes nothing and is not listed."""

    READ = enum.auto()
    WRITE = enum.auto()
    TRUNCATE = enum.auto()
    FLUSH = enum.auto()
    CREATE = enum.auto()
    RENAME = enum.auto()
    REMOVE = enum.auto()
    FLUSH_DIRECTORY = enum.auto()


CHANGES = frozenset(Operation) - {Operation.READ}


class Step(msgspec.Struct, frozen=True):
    """One operation that a disk performed, or was about to. What has no bytes has a size of one: it happens or not."""

    operation: Operation
    path: str
    size_bytes: int = 1


class Outcome(enum.Enum):
    """How an operation with a fault ends, after the part of it that still happens."""

    SHORT = enum.auto()
    """It returns, having done only that part."""

    FAIL = enum.auto()
    """It raises an OSError."""

    KILL = enum.auto()
    """The process dies."""


class Fault:
    """One misbehaviour of a disk, at the first operation that matches after `skip` others that match.

    `done_bytes` of the operation still happen. A lasting fault stays until it is taken away. A test that injects a
    fault has to see that it fired, for a fault that never fires proves nothing.
    """

    def __init__(
        self,
        outcome: Outcome,
        *,
        on: Operation | frozenset[Operation] = CHANGES,
        path_ending: str = "",
        skip: int = 0,
        done_bytes: int = 0,
        error_number: int = errno.EIO,
        is_lasting: bool = False,
    ) -> None:
        self._operations = on if isinstance(on, frozenset) else frozenset({on})
        self._path_ending = path_ending
        self._skip = skip
        self._is_lasting = is_lasting
        self._error_number = error_number
        self.outcome = outcome
        self.done_bytes = done_bytes
        self.has_fired = False

    @property
    def is_spent(self) -> bool:
        """Whether it will not strike again."""
        return self.has_fired and not self._is_lasting

    def strikes(self, step: Step) -> bool:
        """Tell whether this is the operation, and count it if it could have been."""
        if self.is_spent or step.operation not in self._operations or not step.path.endswith(self._path_ending):
            return False
        if self._skip:
            self._skip -= 1
            return False
        self.has_fired = True
        return True

    def error(self, path: str) -> OSError:
        return OSError(self._error_number, os.strerror(self._error_number), path)
