"""A transaction of a producer as a context."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING

from eagleray.client.errors import AbortableError, EaglerayError
from eagleray.client.transaction_states import State

if TYPE_CHECKING:
    from eagleray.client.producer import AsyncProducer

logger = logging.getLogger(__name__)


class TransactionScope:
    """One transaction of a producer, as a context."""

    __slots__ = ("_producer",)

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> AsyncProducer:
        producer = self._producer
        if producer.state is State.UNINITIALIZED:
            await producer.init()
        producer.begin()
        return producer

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        producer = self._producer
        if raised is None:
            try:
                await producer.commit()
            except AbortableError:
                await producer.abort()
                raise
        elif producer.state in (State.OPEN, State.FAILED):
            try:
                await producer.abort()
            except EaglerayError as error:
                # What the block raised is what the application has to see.
                logger.warning("aborting after %r: %s", raised, error)
