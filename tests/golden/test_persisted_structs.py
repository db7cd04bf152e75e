"""Structs that are on disks keep their tags, their fields and the order of these: the table is what was released.

A line changes only together with code that still reads what the old line says.
"""

import inspect
from typing import get_args

import pytest

from eagleray.actors.process.incarnations import IncarnationRecord
from eagleray.broker.log.bookmark import Bookmark
from eagleray.broker.log.checkpoint import Checkpoint
from eagleray.broker.log.index_files import IndexChecksums
from eagleray.broker.metadata.directory_identity import DirectoryIdentity
from eagleray.broker.metadata.kept_image import KeptImage
from eagleray.broker.metadata.log_records import MetadataRecord
from eagleray.broker.quorum.election_state import ElectionState
from eagleray.broker.transactions.branches.records import _LoggedBranching
from eagleray.broker.transactions.origin import Origin
from eagleray.broker.transactions.preparation import Preparation
from eagleray.cluster_records import ClusterRecord
from tests.golden.shapes import shape

TOPIC_PARTITION = "(topic: str, partition: int)"
LEADERSHIP = "leader: int, leader_epoch: int, replicas: [int], isr: [int]"
PARTITION = f"({LEADERSHIP}, partition_epoch?: int, adding?: [int], removing?: [int])"
REPLICAS = f"(partition: {TOPIC_PARTITION}, {LEADERSHIP}, adding?: [int], removing?: [int])"
TOPIC = f"name: str, topic_id: bytes, configs: {{str: str}}, partitions: [{PARTITION}]"
PLANNED = f"(node_id: int, roles: [str], dedicated_to?: {TOPIC_PARTITION} | None, machine?: str)"
ENDPOINT = "(listener: str, security_protocol: str, host: str, port: int)"
NODE = (
    "(node_id: int, incarnation: int, host: str, port: int, roles: [str], pid?: int, ray_node?: str, "
    f"endpoints?: [{ENDPOINT}])"
)
LOSS = f"(lost?: [{TOPIC_PARTITION}], in_doubt?: [{TOPIC_PARTITION}], is_everything?: bool)"
CREDENTIAL = "(salt: bytes, stored_key: bytes, server_key: bytes, iterations: int)"
PREFIX = "(size_bytes?: int, checksum?: int)"
CACHED_BATCH = "(first_sequence: int, last_sequence: int, first_offset: int, last_offset: int, timestamp_ms: int)"
PRODUCER = (
    "(producer_id: int, epoch: int, coordinator_epoch: int, last_timestamp_ms: int, open_since_offset: int, "
    f"batches: [{CACHED_BATCH}])"
)
INDEXES = (
    f"(offset_index: {PREFIX}, time_index: {PREFIX}, transaction_index: {PREFIX}, bytes_since_index_entry: int, "
    "first_timestamp_ms: int, largest_timestamp_ms: int, offset_of_largest_timestamp: int)"
)

METADATA_LOG = {
    "ClusterCreated": "cluster_id: str",
    "NodesPlanned": f"nodes: [{PLANNED}]",
    "NodesUnplanned": "node_ids: [int]",
    "NodeJoined": f"node: {NODE}",
    "TopicCreated": TOPIC,
    "TopicDeleted": "name: str, topic_id: bytes, deleted_ms?: int",
    "PartitionsAdded": f"name: str, partitions: [{PARTITION}]",
    "TopicConfigsChanged": "name: str, configs: {str: str}",
    "NodesLeft": "node_ids: [int]",
    "ReplicasChanged": f"partitions: [{REPLICAS}]",
    "ProducerIdsTaken": "next_id: int",
    "DrainingChanged": "node_ids: [int]",
    "DeletedTopicsForgotten": "topic_ids: [bytes]",
    "TermBegan": "term: int",
    "CredentialChanged": f"user: str, mechanism: int, credential?: {CREDENTIAL} | None",
    "MetadataImage": (
        f"version?: int, cluster_id?: str, nodes?: {{int: {NODE}}}, topics?: {{str: ({TOPIC})}}, "
        f"plan?: {{int: {PLANNED}}}, next_node_id?: int, incarnations?: {{int: int}}, next_producer_id?: int, "
        "draining?: [int], deleted_topics?: {bytes: int}, terms?: [(term: int, version: int)], "
        f"credentials?: {{str: {{int: {CREDENTIAL}}}}}, "
        "first_leader_epoch?: int"
    ),
}

FILES = [
    pytest.param(
        IncarnationRecord,
        f"{{incarnation: int, boot_id: str, is_closed?: bool, loss?: {LOSS}, version?: int, sequence?: int}}",
        id="incarnation",
    ),
    pytest.param(
        DirectoryIdentity,
        "{version?: int, cluster_id?: str, node_id: int, formats?: {str: int}, may_begin_metadata?: bool, "
        "sequence?: int}",
        id="identity",
    ),
    pytest.param(
        KeptImage,
        f"{{version?: int, sequence: int, image: ('MetadataImage', {METADATA_LOG['MetadataImage']})}}",
        id="image",
    ),
    pytest.param(
        ElectionState,
        "{term?: int, voted_for?: int, incarnation?: int, is_whole?: bool, committed?: int, sequence?: int}",
        id="quorum-state",
    ),
    pytest.param(
        Checkpoint,
        "{version?: int, log_start_offset?: int, high_watermark?: int, recovery_point?: int, cleaned_up_to?: int, "
        "boot_id?: str, closed_cleanly?: bool, failed_flush_boot_id?: str, flushes_first?: bool, may_have_gaps?: bool, "
        "sequence?: int, topic_id?: str, partition?: int, epochs?: [(int, int)]}",
        id="checkpoint",
    ),
    pytest.param(
        Bookmark,
        "(version?: int, boot_id: str, base_offset: int, position: int, offset: int, last_header: bytes, "
        f"latest_epoch: int, high_watermark: int, producers: [{PRODUCER}], unreplicated: [(int, int)], "
        f"indexes: {INDEXES})",
        id="bookmark",
    ),
    pytest.param(IndexChecksums, f"(version?: int, prefixes: {{str: {PREFIX}}})", id="checksums"),
    pytest.param(
        Preparation,
        "(prepared_ms?: int, context?: bytes, branches?: [int], next_timeout_ms?: int | None, "
        "outcome?: (producer_id: int, epoch: int, commit: bool) | None, "
        "resolver?: (kind: enum(0, 1), name: str, namespace: str, method: str, first_after_ms: int, interval_ms: int, "
        "attempts: int, aborts_when_exhausted: bool) | None, questions?: int, asked_ms?: int)",
        id="preparation",
    ),
    pytest.param(
        _LoggedBranching,
        f"(tag: str | None, committed_tag: str | None, partitions: [{TOPIC_PARTITION}], "
        "branches: [(producer_id: int, is_committed: bool, places: [int])])",
        id="branches",
    ),
    pytest.param(
        Origin,
        "(client_address?: str, client_id?: str, ray_job?: str, ray_task?: str, spark_application?: str, "
        "spark_query?: str, spark_batch?: int, principal?: str)",
        id="origin",
    ),
    pytest.param(
        ClusterRecord,
        "{name: str, address: str, data_dir: str, bootstrap: str, ray_auth_mode?: str, keeper_pid?: int, "
        "keeper_started?: int}",
        id="cluster",
    ),
]


def test_metadata_log_keeps_its_tags_and_fields():
    expected = {tag: f"('{tag}', {fields})" for tag, fields in METADATA_LOG.items()}
    assert {record.__struct_config__.tag: shape(record) for record in get_args(MetadataRecord)} == expected


@pytest.mark.parametrize("record", get_args(MetadataRecord))
def test_persisted_tag_does_not_follow_the_class_name(record):
    assert f'tag="{record.__struct_config__.tag}"' in inspect.getsource(record)


@pytest.mark.parametrize(("struct", "expected"), FILES)
def test_file_keeps_its_fields(struct, expected):
    assert shape(struct) == expected
