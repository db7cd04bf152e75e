"""DescribeLogDirs: key 35, versions 1 to 5.

The one directory of this node, with the partitions that it leads; those of internal topics are not told of.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import groupby

from eagleray.actors.wire.asking import AdminCall, ask_leader
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import DescribePartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def handle(request: DescribeLogDirsRequest, call: AdminCall) -> DescribeLogDirsResponse:
    """Show how much partitions take."""
    wanted = sorted(_wanted(request, call))
    replies = await asyncio.gather(*(ask_leader(call, partition, DescribePartition) for partition in wanted))
    # A partition that is not led here, or no more, is not in this directory as far as anybody needs to know.
    sizes = {name: reply for name, reply in zip(wanted, replies, strict=True) if not isinstance(reply, ErrorCode)}
    topics = (
        DescribeLogDirsTopic(topic, tuple(_partition(name.partition, sizes[name].size_bytes) for name in names))
        for topic, names in groupby(sizes, key=lambda name: name.topic)
    )
    data_dir = os.path.abspath(call.host.spec.data_dir)
    total_bytes, _, free_bytes = shutil.disk_usage(data_dir)
    result = DescribeLogDirsResult(ErrorCode.NONE, data_dir, tuple(topics), total_bytes, free_bytes)
    return DescribeLogDirsResponse(results=(result,))


def refuse(request: DescribeLogDirsRequest, version: int, error_code: ErrorCode) -> DescribeLogDirsResponse:  # noqa: ARG001 - all have it
    """Refuse the only directory as well: the first versions have no other place for an error."""
    return DescribeLogDirsResponse(error_code=error_code, results=(DescribeLogDirsResult(error_code),))


def _wanted(request: DescribeLogDirsRequest, call: AdminCall) -> set[TopicPartition]:
    if request.topics is not None:
        return {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    image = call.host.image
    led = image.led_by(call.host.spec.node_id)
    return {partition for partition in led if not image.topics[partition.topic].is_internal}


def _partition(number: int, size_bytes: int) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(number, size_bytes)
