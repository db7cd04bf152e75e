"""Whether transactions of version 1 are guarded: a setting that both kinds of coordinators share."""

from __future__ import annotations

import enum
from typing import Annotated

from eagleray.broker.settings import NOT_IN_KAFKA, Setting


class ConnectionGuardMode(enum.StrEnum):
    """Whether transactions of version 1 are guarded."""

    ON = "on"
    OFF = "off"

    @property
    def is_on(self) -> bool:
        """Whether there is a guard."""
        return self is ConnectionGuardMode.ON


TransactionV1Guard = Annotated[
    ConnectionGuardMode,
    Setting(
        "Whether a request of transaction version 1 changes something only on the connection of its client, so that a "
        "late one on an older connection does not get into the next transaction. A client repeats one request when its "
        "connection has changed. Proxies that spread one client over several connections need `off`.",
        kafka=NOT_IN_KAFKA,
    ),
]
