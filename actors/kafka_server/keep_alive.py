"""TCP keepalive, for connections that are meant to be silent for long."""

from __future__ import annotations

import socket
from asyncio.trsock import TransportSocket
from typing import Final

_PROBES: Final = 3
_PROBE_INTERVAL_S: Final = 10
_MOST_IDLE_S: Final = 32767
"""What Linux takes, at the most."""


def keep_alive(connected: TransportSocket | None, idle_s: int) -> None:
    """Have the system close a connection whose peer's machine is gone, some time after it has been silent for so long.

    A connection that is no socket, as in tests, is left as it is.
    """
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(max(idle_s, 1), _MOST_IDLE_S))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_INTERVAL_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
