"""A port of a node, as its connections see it: which listener it is, and whom it takes."""

from __future__ import annotations

from typing import Final

import msgspec

from eagleray.actors.common.security_config import SecurityConfig
from eagleray.actors.kafka_server.tls import TlsCertificates
from eagleray.broker.security.listeners import SecurityProtocol

OWN_LISTENER: Final = ""
"""The name of a node's own port, at which nodes and handles reach it."""


class Endpoint(msgspec.Struct, frozen=True):
    """One port. Metadata that is asked for here names the listener of the same name on each node."""

    listener_name: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    takes_direct_lane: bool = False
    takes_clients: bool = True
    tls: TlsCertificates | None = None
    sasl: SecurityConfig | None = None
    """By what its clients authenticate, where they do so by SASL."""

    authentication_timeout_s: float = 0
    """How long a client may take to show who it is."""

    @property
    def has_arrivals(self) -> bool:
        """Whether peers have something to show before they are clients; they have been counted and timed by then."""
        return self.tls is not None or self.sasl is not None

    def reason_to_refuse_client(self) -> tuple[str, str] | None:
        """Return why Kafka's clients are not served here, if they are not: a kind and a sentence."""
        if self.takes_clients:
            return None
        return "lane", "this port is for nodes and handles alone; Kafka's clients have the ports of `listeners`"

    def reason_to_refuse_lane(self) -> tuple[str, str] | None:
        """Return why nodes and handles are not let in here, if they are not: a kind and a sentence."""
        if self.takes_direct_lane:
            return None
        return "client port", f"listener {self.listener_name} is for Kafka's clients; handles use the node's own port"


SHARED_PORT: Final = Endpoint(OWN_LISTENER, takes_direct_lane=True)
"""The node's own port, where there are no listeners besides: for nodes and handles, and for Kafka's clients."""

LANE_PORT: Final = Endpoint(OWN_LISTENER, takes_direct_lane=True, takes_clients=False)
"""The node's own port, where Kafka's clients have listeners of their own."""
