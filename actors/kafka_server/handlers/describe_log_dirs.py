"""DescribeLogDirs: key 35, versions 1 to 5.

Returns the one directory of this node, with the replicas that are open.
"""

from __future__ import annotations

import os
import shutil
from itertools import groupby

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API = ServedApi(35, 1, 5)


async def handle(request: DescribeLogDirsRequest, call: AdminCall) -> DescribeLogDirsResponse:
    """Return the sizes of partitions."""
    replicas = call.context.replica_manager
    sizes = {name: size for name in sorted(_wanted(request, call)) if (size := replicas.size_of(name)) is not None}
    topics = (
        DescribeLogDirsTopic(topic, tuple(DescribeLogDirsPartition(name.partition, sizes[name]) for name in names))
        for topic, names in groupby(sizes, key=lambda name: name.topic)
    )
    data_dir = os.path.abspath(call.context.spec.data_dir)
    total_bytes, _, free_bytes = shutil.disk_usage(data_dir)
    result = DescribeLogDirsResult(ErrorCode.NONE, data_dir, tuple(topics), total_bytes, free_bytes)
    return DescribeLogDirsResponse(results=(result,))


def refuse(request: DescribeLogDirsRequest, version: int, error_code: ErrorCode) -> DescribeLogDirsResponse:  # noqa: ARG001 - all have it
    """Refuse the only directory as well: the first versions have no other place for an error."""
    return DescribeLogDirsResponse(error_code=error_code, results=(DescribeLogDirsResult(error_code),))


def _wanted(request: DescribeLogDirsRequest, call: AdminCall) -> set[TopicPartition]:
    kept = set(call.context.image.kept_by(call.context.spec.node_id))
    if request.topics is None:
        return kept
    return kept & {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
