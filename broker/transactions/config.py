"""Settings of a transaction coordinator, under Kafka's own names where Kafka has one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eagleray.broker.runtime.connection_guard_mode import ConnectionGuardMode, TransactionV1Guard
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
            reached="INVALID_TRANSACTION_TIMEOUT",
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
            reached="CONCURRENT_TRANSACTIONS at once; the client tries again",
        ),
    ] = 16

    max_transactional_ids_per_partition: Annotated[
        int,
        Setting(
            "The number of transactional ids that a partition of `__transaction_state` remembers. Where there are "
            "more, one whose producer was given its first identity 15 minutes ago or longer, and has done nothing with "
            "it, makes room for a new one; where there is none, a new one is refused with POLICY_VIOLATION.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="a transactional id that was never used makes room, else POLICY_VIOLATION",
        ),
    ] = 100_000

    max_transaction_branches: Annotated[
        int,
        Setting(
            "The number of branches that a transaction with many writers may have. All of them are in each record that "
            "the coordinator writes about the transaction.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 10_000

    max_transaction_pool_slots: Annotated[
        int,
        Setting(
            "The number of slots that a pool of transactions may have; a producer that asks for more is refused with "
            "POLICY_VIOLATION. Each is a transactional id, and a takeover of the pool looks at all of them.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="POLICY_VIOLATION",
        ),
    ] = 10_000

    max_prepared_context_bytes: Annotated[
        int,
        Setting(
            "The longest context that a producer may have kept with a prepared transaction; a longer one is refused "
            "with INVALID_REQUEST. It is in each record that the coordinator writes about the transaction.",
            unit="bytes",
            least=0,
            kafka=NOT_IN_KAFKA,
            reached="INVALID_REQUEST",
        ),
    ] = 4096

    resolver_answer_timeout_ms: Annotated[
        int,
        Setting(
            "How long the coordinator waits for the answer of a resolver before it counts the question as unanswered.",
            unit="ms",
            least=1,
            kafka=NOT_IN_KAFKA,
        ),
    ] = 30_000

    max_resolver_questions_in_flight: Annotated[
        int,
        Setting(
            "The number of questions to resolvers that a coordinator has on their way at the same time; further ones "
            "wait.",
            least=1,
            kafka=NOT_IN_KAFKA,
            reached="further questions wait",
        ),
    ] = 64

    transaction_completion_log_delay_ms: Annotated[
        int,
        Setting(
            "How long the coordinator may put off the record which says that all markers of a transaction are written; "
            "the next transaction of the producer says it as well. With 0 it is written at once, as in Kafka.",
            unit="ms",
            kafka=NOT_IN_KAFKA,
        ),
    ] = 1000

    transaction_v1_guard: TransactionV1Guard = ConnectionGuardMode.ON

    def __post_init__(self) -> None:
        check_ranges(self)
