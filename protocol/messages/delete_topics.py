"""DeleteTopics: deletes topics, by name or, from version 6 on, by id."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int16,
    Int32,
    Message,
    NullableSince,
    Since,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class DeleteTopicState(WireStruct, frozen=True):
    """A topic to delete, by name or by id."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Message, frozen=True):
    """Topics to delete."""

    wire = Wire(api_key=20, versions=(1, 6), flexible_since=4)

    topics: Annotated[tuple[DeleteTopicState, ...], Since(6)] = ()
    topic_names: Annotated[tuple[str, ...], Until(5), Ignorable()] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(WireStruct, frozen=True):
    """The outcome for one topic."""

    name: Annotated[str | None, NullableSince(6)] = ""
    topic_id: Annotated[Uuid, Since(6), Ignorable()] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, Since(5), Ignorable()] = None


class DeleteTopicsResponse(Message, frozen=True):
    """The outcome for every topic."""

    wire = Wire(api_key=20, versions=(1, 6), flexible_since=4)

    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...] = ()
