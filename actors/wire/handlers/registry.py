"""Which APIs are served, in which versions, and by whom."""

from __future__ import annotations

from typing import Final

from eagleray.actors.wire.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    consumer_group_heartbeat,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    sync_group,
    txn_offset_commit,
)
from eagleray.actors.wire.handlers.admin_apis import ADMIN_HANDLERS
from eagleray.actors.wire.served import Served, serve

SERVED: Final[dict[int, Served]] = {
    served.api.key: served
    for served in (
        serve(0, produce, 3, 13, advertised_lowest=0),
        serve(1, fetch, 4, 18, has_large_records=True),
        serve(2, list_offsets, 1, 11),
        serve(3, metadata, 0, 13),
        serve(8, offset_commit, 2, 10),
        serve(9, offset_fetch, 1, 10),
        serve(10, find_coordinator, 0, 6),
        serve(11, join_group, 0, 9),
        serve(12, heartbeat, 0, 4),
        serve(13, leave_group, 0, 5),
        serve(14, sync_group, 0, 5),
        serve(18, api_versions, 0, 5),
        serve(22, init_producer_id, 0, 5),
        serve(24, add_partitions_to_txn, 0, 5),
        serve(25, add_offsets_to_txn, 0, 4),
        serve(26, end_txn, 0, 5),
        serve(28, txn_offset_commit, 0, 6),
        serve(68, consumer_group_heartbeat, 0, 1),
        *(serve(*api) for api in ADMIN_HANDLERS),
    )
}
"""By API key. What is served may be less than what the codec knows, never more."""
