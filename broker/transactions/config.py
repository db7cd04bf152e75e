"""Settings of a transaction coordinator, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.settings import NOT_IN_KAFKA, Changed, Setting, check_ranges

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS

TransactionLogPartitions = Annotated[
    int,
    Setting(
        "The number of partitions of `__transaction_state`. Transactional ids are spread over them by hash, and each "
        "is led by a transaction coordinator.",
        least=1,
        changed=Changed.NEVER,
    ),
]


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long transactions and transactional ids may last, and how they are spread."""

    transaction_state_log_num_partitions: TransactionLogPartitions = 50

    max_transaction_timeout_ms: Annotated[
        int,
        Setting(
            "The longest `transaction.timeout.ms` that a producer may ask for; a longer one is refused with "
            "INVALID_TRANSACTION_TIMEOUT. Readers of committed records wait behind an open transaction for as long.",
            unit="ms",
            least=1,
        ),
    ] = 15 * 60 * 1000

    transactional_id_expiration_ms: Annotated[
        int,
        Setting(
            "How long the coordinator remembers a transactional id whose producer has done nothing. Later its producer "
            "gets a new producer id. An older name of this setting, `transactional.id.timeout.ms`, is accepted too.",
            unit="ms",
            least=1,
        ),
    ] = 7 * _DAY_MS

    transaction_abort_timed_out_transaction_cleanup_interval_ms: Annotated[
        int,
        Setting(
            "How often the coordinator looks for transactions that are open for longer than their timeout, and aborts "
            "them.",
            unit="ms",
            least=1,
            kafka="10000",
        ),
    ] = 1000

    transaction_remove_expired_transaction_cleanup_interval_ms: Annotated[
        int,
        Setting(
            "How often the coordinator looks for transactional ids that are past `transactional.id.expiration.ms`, and "
            "removes them.",
            unit="ms",
            least=1,
        ),
    ] = _HOUR_MS

    request_hold_ms: Annotated[
        int,
        Setting(
            "How long a request that meets the markers of a decided transaction under way is held before it is "
            "answered with CONCURRENT_TRANSACTIONS. It saves the client the backoff of a retry.",
            unit="ms",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 500

    request_hold_limit: Annotated[
        int,
        Setting(
            "The number of requests that are held at the same time for one transactional id; further ones are answered "
            "with CONCURRENT_TRANSACTIONS at once.",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 16

    max_transaction_branches: Annotated[
        int,
        Setting(
            "The number of branches that a transaction with many writers may have. All of them are in each record that "
            "the coordinator writes about the transaction.",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 10_000

    transaction_completion_log_delay_ms: Annotated[
        int,
        Setting(
            "How long the coordinator may put off the record which says that all markers of a transaction are written; "
            "the next transaction of the producer says it as well. With 0 it is written at once, as in Kafka.",
            unit="ms",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1000

    def __post_init__(self) -> None:
        check_ranges(self)
