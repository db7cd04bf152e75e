"""The slots of a pool: each a producer of its own, under a transactional id that the pool's coordinator keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.broker.transactions.pools.names import slot_name
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.client.calls import Question
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import ClientClosed, EaglerayError, FatalError, PoolFenced
from eagleray.client.producer.delivery_guarantee import FORGOTTEN
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_states import ENDING, State
from eagleray.client.producer.two_phase import TwoPhaseManager
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode

_NOT_THE_OWNER: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""What a producer hears whose pool has another owner, or was forgotten with all of its slots."""

_FINDS_OUT: Final = (*ENDING, State.CHECKING, State.PREPARING)
"""Where a slot hears by itself what has become of its transaction, though its pool has another owner."""


class PoolOwnership:
    """Who has the pool, for its slots; and why they have it no more."""

    def __init__(self, pool: str, identity: ProducerIdentity, on_lost: Callable[[PoolFenced], None]) -> None:
        self.pool = pool
        self.identity = identity
        self.failure: FatalError | None = None
        """Why no transaction begins any more; None while they do."""
        self._on_lost = on_lost

    def lose(self, error_code: ErrorCode | None) -> FatalError:
        """Take note that another has the pool; return what its transactions are told."""
        if self.failure is None:
            why = "was forgotten by the cluster" if error_code is _NOT_THE_OWNER[1] else "has a newer owner"
            lost = PoolFenced(f"the pool {self.pool!r} {why}: it can do nothing more here.", error_code)
            self.failure = lost
            self._on_lost(lost)
        return self.failure

    def close(self) -> None:
        """Begin nothing more."""
        self.failure = self.failure or ClientClosed(f"the pool {self.pool!r} was closed.")


class _SlotManager(TwoPhaseManager):
    """The transactions of a slot, which belongs to the program that has the pool.

    It may prepare each of them. A refusal that may mean another owner is followed by InitProducerId, which names the
    owner that it believes in: so it learns whether its pool was taken over, or only its transaction ended for it.
    """

    def __init__(
        self, sender: Sender, runtime: ClientRuntime, config: ProducerConfig, ownership: PoolOwnership
    ) -> None:
        super().__init__(sender, runtime, config)
        self._ownership = ownership

    @property
    def takes_part(self) -> bool:
        """Whether it may prepare the transaction at hand."""
        return True

    def _identity_question(self, expected: ProducerIdentity | None) -> Question[Reply]:
        name, timeout_ms, origin = self.transactional_id, self._config.transaction_timeout_ms, self._runtime.origin
        keeps, owner = self.prepared is not None, self._ownership.identity
        return Question(InitProducerId, name, timeout_ms, expected, origin, False, keeps, None, owner)

    def _die(self, error: EaglerayError) -> None:
        if error.error_code in _NOT_THE_OWNER and error.message != FORGOTTEN and not isinstance(error, PoolFenced):
            error = self._ownership.lose(error.error_code)
        super()._die(error)

    def shut_down(self, error: FatalError) -> None:
        """Take nothing more, for this reason; calls that wait are told."""
        self._die(error)
        self.refusal = error
        self._sender.fail_all(error)


class SlotProducer(AsyncProducer):
    """The producer of one slot: transactions one after the other, beside those of the other slots."""

    __slots__ = ("_ownership", "_slot", "number")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig, number: int, ownership: PoolOwnership) -> None:
        super().__init__(runtime, config)
        self.number = number
        self._ownership = ownership
        self._slot = _SlotManager(self._sender, runtime, config, ownership)
        self._transactions = self._guarantee = self._sender.guarantee = self._slot

    def begin_with(self, resolver: ResolverName | None) -> None:
        """Begin a transaction."""
        self._slot.begin(resolver)
        self._refused_commit = None

    def abandon(self) -> None:
        """Take nothing more and fail what is on its way, without a word to the cluster."""
        self._is_closed = True
        self._slot.shut_down(self._ownership.failure or ClientClosed(f"slot {self.number} was given up."))

    def tell_lost(self) -> None:
        """Fail an open transaction at once, because another has the pool; one that is being ended hears how it ends."""
        if self.state not in _FINDS_OUT:
            self.abandon()


def slot_config(config: ProducerConfig, pool: str, number: int) -> ProducerConfig:
    """Return the settings of the producer of a slot."""
    return replace(config, transactional_id=slot_name(pool, number))
