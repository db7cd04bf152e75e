"""The words in which messages describe themselves.

A message is one Struct for all its versions. Its fields carry Python types and, inside `Annotated`, what the
wire needs to know besides:

- `Int8`, `Int16`, `Int32`, `Int64` and `Uuid` say how wide a value is; `str`, `bytes`, `bool`, `Records`,
  other Structs and tuples of all these need no more words;
- `Since(3)` and `Until(5)` bound the versions that have the field, both ends included; without them every
  version has it;
- `X | None` may be null; `NullableSince(7)` says that older versions cannot express it;
- `Tagged(0)` moves the field into the tagged section of its Struct;
- `Ignorable()` lets an encoder drop a value that the version cannot carry, where it would otherwise refuse;
- `NeverCompact()` keeps the two-byte length of a string even in flexible versions.

The default of a field is Kafka's: it is what a version without the field decodes to.
"""

from typing import Annotated, ClassVar

from msgspec import Struct


class WireType(Struct, frozen=True):
    """Names the wire's type where the Python type does not tell it."""

    name: str


class Since(Struct, frozen=True):
    """The first version that has the field."""

    version: int


class Until(Struct, frozen=True):
    """The last version that has the field."""

    version: int


class NullableSince(Struct, frozen=True):
    """The first version in which the field may be null; what may always be null needs no such mark."""

    version: int


class Tagged(Struct, frozen=True):
    """The tag under which the field travels in the tagged section, only when it differs from its default."""

    tag: int


class Ignorable(Struct, frozen=True):
    """A value that the version cannot carry is dropped without a word."""


class NeverCompact(Struct, frozen=True):
    """The length keeps its old width in flexible versions, so that readers of any age can skip the field."""


Int8 = Annotated[int, WireType("int8")]
Int16 = Annotated[int, WireType("int16")]
Int32 = Annotated[int, WireType("int32")]
Int64 = Annotated[int, WireType("int64")]

# Sixteen plain bytes, not a uuid.UUID: building one of those costs as much as decoding a small request, and
# an id is only ever compared, looked up and passed on.
Uuid = Annotated[bytes, WireType("uuid")]
ZERO_UUID = bytes(16)

# Decoding gives a view into the frame, so that record data is never copied; encoding takes any of the three.
Records = Annotated[bytes | bytearray | memoryview, WireType("records")]


class Wire(Struct, frozen=True):
    """Where a message stands in the protocol: what the definition file of Kafka says above its fields.

    `versions` are the lowest and the highest valid version. From `flexible_since` on, lengths are compact and
    every Struct ends with a tagged section. `api_key` belongs to requests and responses, `record_type` to
    keys in a coordinator's log. A version from `unstable_since` on is one that Kafka may still change.
    `reads_newer` marks a format whose later versions only ever append, so that they are read as the highest
    version known.
    """

    versions: tuple[int, int]
    flexible_since: int | None = None
    api_key: int | None = None
    record_type: int | None = None
    unstable_since: int | None = None
    reads_newer: bool = False

    def is_valid(self, version: int) -> bool:
        """Say whether the message has this version."""
        lowest, highest = self.versions
        return lowest <= version <= highest

    def is_flexible(self, version: int) -> bool:
        """Say whether this version has compact lengths and tagged sections."""
        return self.flexible_since is not None and version >= self.flexible_since


# Messages are frozen trees that cannot hold a cycle, so the garbage collector need not look at them.
class WireStruct(Struct, frozen=True, gc=False):
    """A part of a message: immutable, equal by value, every field with Kafka's default."""


class Message(WireStruct, frozen=True):
    """A whole message: a request, a response, a header, or a key or value kept in a log."""

    wire: ClassVar[Wire]
