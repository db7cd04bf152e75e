"""What the Kafka server of a node sees of it."""

from __future__ import annotations

from typing import Protocol

from eagleray.actors.storage.context import StorageContext


class ListenerContext(StorageContext, Protocol):
    """The node as its listener and the handlers see it."""

    def connection_closed(self, number: int) -> None:
        """Tell the roles that a connection is closed by which a Kafka client has sent requests of transactions."""
