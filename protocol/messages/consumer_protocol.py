"""The consumer protocol: what members of a classic group tell each other through the coordinator.

Before each stands its version, two bytes. Later versions only append, so a reader takes a version that it
does not know for the highest that it does.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int32, Message, Since, Wire, WireStruct


class TopicPartition(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class ConsumerProtocolSubscription(Message, frozen=True):
    """What a member of a group wants to read and already owns."""

    wire = Wire(versions=(0, 3), reads_newer=True)

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: Annotated[tuple[TopicPartition, ...], Since(1), Ignorable()] = ()
    generation_id: Annotated[Int32, Since(2), Ignorable()] = -1
    rack_id: Annotated[str | None, Since(3), Ignorable()] = None


class ConsumerProtocolAssignment(Message, frozen=True):
    """What the leader of a group gives to a member."""

    wire = Wire(versions=(0, 3), reads_newer=True)

    assigned_partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
