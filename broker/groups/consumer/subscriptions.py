"""What an assignor knows of a member."""

from __future__ import annotations

import msgspec

from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """One member: the topics that it wants, by id, and the partitions that it was to own so far."""

    topic_ids: frozenset[bytes]
    partitions: Partitions = NO_PARTITIONS
    instance_id: str | None = None
