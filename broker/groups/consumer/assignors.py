"""What assigns partitions: pure functions from members and topics to what each member shall own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from eagleray.broker.groups.consumer.partitions import Partitions
from eagleray.broker.groups.consumer.range_assignor import assign_ranges
from eagleray.broker.groups.consumer.subscriptions import Subscriber
from eagleray.broker.groups.consumer.uniform_assignor import assign_uniformly

Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, Partitions]]
"""From members by id and partition counts by topic id to the partitions of every member, none left out."""

DEFAULT_ASSIGNORS: Final = ("uniform", "range")
ASSIGNORS: Final[Mapping[str, Assignor]] = dict(zip(DEFAULT_ASSIGNORS, (assign_uniformly, assign_ranges), strict=True))
