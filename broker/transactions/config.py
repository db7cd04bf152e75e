"""Settings of a transaction coordinator, under Kafka's own names where Kafka has one."""

from __future__ import annotations

import msgspec

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long transactions and transactional ids may last, and how they are spread."""

    transaction_state_log_num_partitions: int = 50
    max_transaction_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * _DAY_MS
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 1000
    """How often to look for transactions that have timed out; until they are aborted, consumers wait for them."""

    transaction_remove_expired_transaction_cleanup_interval_ms: int = _HOUR_MS
    request_hold_ms: int = 500
    """How long a request waits for what is under way before it is sent back to try again."""

    request_hold_limit: int = 16
    """How many requests may wait for the same transactional id; any more are sent back at once."""

    max_transaction_branches: int = 10_000
    """How many branches a transaction may have; all of them are in each of its records."""

    transaction_completion_log_delay_ms: int = 1000
    """How long the log need not be told that a transaction has all its markers; the next one of its producer says it
    too, and a recovery in between writes the markers once more. With 0 the log is told at once, as in Kafka."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            least = 0 if name.startswith(("request_hold", "transaction_completion")) else 1
            if getattr(self, name) < least:
                raise ValueError(f"{name} has to be {least} or more")
