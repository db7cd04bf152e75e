"""WriteTxnMarkers: a coordinator has commit or abort markers written to partitions."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Since,
    Wire,
    WireStruct,
)


class WritableTxnMarkerTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class WritableTxnMarker(WireStruct, frozen=True):
    """The decision about one transaction, and where to write it."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, Since(2), Ignorable()] = 0


class WriteTxnMarkersRequest(Message, frozen=True):
    """Markers to write."""

    wire = Wire(api_key=27, versions=(1, 2), flexible_since=1)

    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarkerPartitionResult(WireStruct, frozen=True):
    """Whether one partition has its marker."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerResult(WireStruct, frozen=True):
    """The outcomes for one transaction."""

    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WriteTxnMarkersResponse(Message, frozen=True):
    """The outcome for every marker."""

    wire = Wire(api_key=27, versions=(1, 2), flexible_since=1)

    markers: tuple[WritableTxnMarkerResult, ...] = ()
