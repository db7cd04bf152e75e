"""How long, and how often, a client asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from eagleray.broker.runtime.deadlines import NEVER_MS

if TYPE_CHECKING:
    from eagleray.client.config import ConsumerConfig, ProducerConfig


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a question is asked in all, how long each attempt may take, and the pauses between them."""

    total_ms: int = 60_000
    request_ms: int = 30_000
    backoff_ms: int = 20
    backoff_max_ms: int = 200

    @classmethod
    def of(cls, config: ProducerConfig | ConsumerConfig, total_ms: int = NEVER_MS) -> Self:
        """Take the settings of a client; where no time is given, it asks for ever."""
        return cls(
            total_ms=total_ms,
            request_ms=config.request_timeout_ms,
            backoff_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
        )

    def pause_ms(self, failures: int) -> int:
        """Return the pause after a failure with so many before it: twice as long each time, up to the longest."""
        return min(self.backoff_ms << min(failures, 16), self.backoff_max_ms)
