"""Our annotations against the definitions that Kafka publishes, field by field and version by version.

kafka-python ships a copy of the definitions, of about the age of ours. A folder with another copy, such as the one
in a checkout of Kafka, can be named by EAGLERAY_KAFKA_MESSAGES; then it is compared too.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagleray.protocol.messages.annotations import Message
from tests.compat.message_definitions import Definition, our_facts, our_refused
from tests.support.kafka_python import DEFINITIONS as KAFKA_PYTHON
from tests.support.messages import MESSAGES, name_of, versions_of

SOURCES = {"kafka-python": KAFKA_PYTHON}
if folder := os.environ.get("EAGLERAY_KAFKA_MESSAGES"):
    SOURCES["kafka"] = Path(folder)

NOT_FOR_CLIENTS = "kafka-python is a client, and only brokers need it"
NOT_IMPLEMENTED = "kafka-python has not implemented it"
NEWER = "our definitions are newer"

# Every way in which a source differs from us, and why. An entry that no longer applies fails the test.
EXPECTED: dict[str, dict[str, dict[str, str]]] = {
    "kafka": {},
    "kafka-python": {
        "AllocateProducerIdsRequest": {"is not there": NOT_FOR_CLIENTS},
        "AllocateProducerIdsResponse": {"is not there": NOT_FOR_CLIENTS},
        "TransactionLogKey": {"is not there": NOT_FOR_CLIENTS},
        "TransactionLogValue": {"is not there": NOT_FOR_CLIENTS},
        "OffsetCommitKey": {"is not there": NOT_FOR_CLIENTS},
        "OffsetCommitValue": {"is not there": NOT_FOR_CLIENTS},
        "GroupMetadataKey": {"is not there": NOT_FOR_CLIENTS},
        "GroupMetadataValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupMetadataKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupMetadataValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupPartitionMetadataKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupPartitionMetadataValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupMemberMetadataKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupMemberMetadataValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupTargetAssignmentMetadataKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupTargetAssignmentMetadataValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupTargetAssignmentMemberKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupTargetAssignmentMemberValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupCurrentMemberAssignmentKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupCurrentMemberAssignmentValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupRegularExpressionKey": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupRegularExpressionValue": {"is not there": NOT_FOR_CLIENTS},
        "ConsumerGroupHeartbeatRequest": {"is not there": NOT_IMPLEMENTED},
        "ConsumerGroupHeartbeatResponse": {"is not there": NOT_IMPLEMENTED},
        "ConsumerGroupDescribeRequest": {"is not there": NOT_IMPLEMENTED},
        "ConsumerGroupDescribeResponse": {"is not there": NOT_IMPLEMENTED},
        "GetTelemetrySubscriptionsRequest": {"is not there": NOT_IMPLEMENTED},
        "GetTelemetrySubscriptionsResponse": {"is not there": NOT_IMPLEMENTED},
        "PushTelemetryRequest": {"is not there": NOT_IMPLEMENTED},
        "PushTelemetryResponse": {"is not there": NOT_IMPLEMENTED},
        "ApiVersionsRequest": {"lacks version 5": NEWER},
        "ApiVersionsResponse": {"lacks version 5": NEWER},
        "DeleteGroupsRequest": {"lacks version 3": NEWER},
        "DeleteGroupsResponse": {"lacks version 3": NEWER},
        "TxnOffsetCommitRequest": {
            "lacks version 6": NEWER,
            "lacks generation_id_or_member_epoch": "our definitions are newer, and the field has been renamed",
            "has generation_id": "our definitions are newer, and the field has been renamed",
        },
        "TxnOffsetCommitResponse": {"lacks version 6": NEWER},
    },
}


@pytest.mark.parametrize("message", MESSAGES, ids=name_of)
@pytest.mark.parametrize("source", SOURCES)
def test_annotations_equal_definitions(source: str, message: type[Message]):
    expected = EXPECTED[source].get(message.__name__, {})
    assert set(differences(SOURCES[source], message)) == set(expected)


def test_every_expected_difference_names_a_message():
    names = {message.__name__ for message in MESSAGES}
    assert set().union(*EXPECTED.values()) <= names


def differences(source: Path, message: type[Message]) -> Iterator[str]:
    path = source / f"{message.__name__}.json"
    if not path.exists():
        yield "is not there"
        return
    definition = Definition(path)
    ours, theirs = set(versions_of(message)), set(definition.versions)
    yield from (f"lacks version {version}" for version in ours - theirs)
    yield from (f"has version {version}" for version in theirs - ours)
    number = message.wire.api_key if message.wire.record_type is None else message.wire.record_type
    if number is not None and number != definition.api_key:
        yield f"has the key {definition.api_key}"
    if definition.is_latest_unstable != (message.wire.unstable_since is not None):
        yield "differs in which versions are stable"
    for version in ours & theirs:
        yield from differences_in(definition, message, version)


def differences_in(definition: Definition, message: type[Message], version: int) -> Iterator[str]:
    if definition.is_flexible(version) != message.wire.is_flexible(version):
        yield f"differs in whether version {version} is flexible"
    ours, theirs = our_facts(message, version), definition.facts(version)
    yield from (f"lacks {name}" for name in ours.keys() - theirs.keys())
    yield from (f"has {name}" for name in theirs.keys() - ours.keys())
    common = ours.keys() & theirs.keys()
    if [name for name in ours if name in common] != [name for name in theirs if name in common]:
        yield f"orders the fields of version {version} in another way"
    yield from (f"has {name} as {theirs[name]}" for name in common if ours[name] != theirs[name])
    ours_refused, theirs_refused = our_refused(message, version), definition.refused(version)
    yield from (f"lacks {name}" for name in (ours_refused - theirs_refused) - common)
    yield from (f"has {name}" for name in (theirs_refused - ours_refused) - common)
