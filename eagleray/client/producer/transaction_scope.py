"""A transaction of a producer as a context."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from eagleray.client.producer.transaction_states import State

if TYPE_CHECKING:
    from eagleray.client.producer.producer import AsyncProducer
    from eagleray.client.producer.resolver import Resolver


class TransactionScope:
    """One transaction of a producer, as a context."""

    __slots__ = ("_producer", "_resolver")

    def __init__(self, producer: AsyncProducer, resolver: Resolver | None = None) -> None:
        self._producer = producer
        self._resolver = resolver

    async def __aenter__(self) -> AsyncProducer:
        producer = self._producer
        if producer.state is State.UNINITIALIZED:
            await producer.init()
        producer.begin(resolver=self._resolver)
        return producer

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if raised is not None:
            await self._producer.abort_because(raised)
        else:
            await self._producer.commit()
