"""Where a voter keeps the metadata log, and with which settings."""

from __future__ import annotations

from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CLUSTER_METADATA

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA, 0)
ELECTION_STATE_FILE: Final = "quorum-state"
SETTINGS: Final = {
    "retention.ms": "-1",
    "flush": "commit",
    # A whole image is one record, and the changes of a turn are one batch.
    "max.message.bytes": str(64 * 1024**2),
}
