"""The admin and query APIs: who handles each, and in which versions. `registry` serves them all.

GetTelemetrySubscriptions and PushTelemetry are not here: clients ask for them only where they are advertised, and do
without them otherwise.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from eagleray.actors.wire.handlers import (
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    consumer_group_describe,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    offset_delete,
    offset_for_leader_epoch,
    sasl_authenticate,
    sasl_handshake,
    update_features,
    write_txn_markers,
)

ADMIN_HANDLERS: Final[tuple[tuple[int, ModuleType, int, int], ...]] = (
    (15, describe_groups, 0, 6),
    (16, list_groups, 0, 5),
    (17, sasl_handshake, 0, 1),
    (19, create_topics, 2, 7),
    (20, delete_topics, 1, 6),
    (21, delete_records, 0, 2),
    (23, offset_for_leader_epoch, 2, 4),
    (27, write_txn_markers, 1, 2),
    (29, describe_acls, 1, 3),
    (30, create_acls, 1, 3),
    (31, delete_acls, 1, 3),
    (32, describe_configs, 1, 4),
    (33, alter_configs, 0, 2),
    (35, describe_log_dirs, 1, 5),
    (36, sasl_authenticate, 0, 2),
    (37, create_partitions, 0, 3),
    (42, delete_groups, 0, 3),
    (43, elect_leaders, 0, 2),
    (44, incremental_alter_configs, 0, 1),
    (45, alter_partition_reassignments, 0, 1),
    (46, list_partition_reassignments, 0, 0),
    (47, offset_delete, 0, 0),
    (50, describe_user_scram_credentials, 0, 0),
    (51, alter_user_scram_credentials, 0, 0),
    (57, update_features, 0, 2),
    (60, describe_cluster, 0, 2),
    (61, describe_producers, 0, 0),
    (65, describe_transactions, 0, 0),
    (66, list_transactions, 0, 2),
    (69, consumer_group_describe, 0, 1),
    (75, describe_topic_partitions, 0, 0),
)
"""Each as `serve` takes it: the API key, the module that handles it, the lowest and the highest version."""
