"""Opens the ports of a node: its own, and those of its listeners for Kafka's clients."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from eagleray.actors.common.security_config import SecurityConfig
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.kafka_server.endpoint import LANE_PORT, SHARED_PORT, Endpoint
from eagleray.actors.kafka_server.listener import Listener
from eagleray.actors.kafka_server.tls import TlsCertificates
from eagleray.actors.process.ports import ports_of_listener, ports_to_try, read_listener_ports, read_port
from eagleray.actors.storage.disk import Disk
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.metadata.nodes import BrokerEndpoint
from eagleray.broker.security.listeners import ClientListener

LISTENERS_SUFFIX: Final = ".listeners"
"""The file with the ports of a node's listeners, beside the one with its own port."""


class CannotListen(OSError):
    """No port of a listener is free; the text says which were tried and what helps."""


class Listening:
    """The ports of one node.

    Persists: each port, by the name of its listener, so that clients find the node again after a restart.
    """

    def __init__(self, spec: NodeSpec, disk: Disk, listener: Listener, security: SecurityConfig) -> None:
        self._spec = spec
        self._disk = disk
        self._listener = listener
        self._security = security
        self._client_listeners = security.client_listeners
        self._path = f"{spec.data_dir}/nodes/{spec.node_id}"
        self.port = 0
        self.endpoints: tuple[BrokerEndpoint, ...] = ()

    async def start(self) -> None:
        """Listen at every port, or, where one cannot be had, at none, and raise OSError; or InvalidConfig, where the
        certificates of a listener cannot be read.
        """
        try:
            await self._open_ports()
        except BaseException:
            self._listener.abort()
            raise

    async def _open_ports(self) -> None:
        path = f"{self._path}.port"
        last_port = read_port(self._disk.read_bytes(path)) if self._disk.exists(path) else 0
        endpoint = LANE_PORT if self._client_listeners else SHARED_PORT
        host = self._spec.bind_host or self._spec.host
        self.port = await self._listen(host, ports_to_try(self._spec, last_port), endpoint)
        if self.port != last_port:
            write_atomically(self._disk, path, str(self.port).encode())
        await self._start_client_listeners(host)

    async def _start_client_listeners(self, host: str) -> None:
        path = self._path + LISTENERS_SUFFIX
        known = read_listener_ports(self._disk.read_bytes(path)) if self._disk.exists(path) else {}
        chosen: dict[str, int] = {}
        for each in self._client_listeners:
            chosen[each.name] = await self._listen_for_clients(each, host, known.get(each.name, 0))
        self.endpoints = tuple(self._advertised(each, chosen[each.name]) for each in self._client_listeners)
        if chosen != known:
            write_atomically(self._disk, path, msgspec.json.encode(chosen))

    async def _listen_for_clients(self, listener: ClientListener, host: str, last_port: int) -> int:
        ports, endpoint = ports_of_listener(self._spec.node_id, listener.ports, last_port), self._endpoint_of(listener)
        try:
            return await self._listen(listener.host or host, ports, endpoint)
        except OSError as error:
            low, high = listener.ports
            raise CannotListen(
                error.errno,
                f"node {self._spec.node_id} cannot open listener {listener.name} at {listener.host or host}, port "
                f"{low}{f'-{high}' if high != low else ''}: {error.strerror or error}. Nodes on one machine need "
                "a port each: give the listener port 0 or a range LOW-HIGH in `listeners`",
            ) from error

    async def _listen(self, host: str, ports: Iterable[int], endpoint: Endpoint) -> int:
        *others, last_resort = ports
        for port in others:
            with suppress(OSError):
                return await self._listener.listen(host, port, endpoint)
        return await self._listener.listen(host, last_resort, endpoint)

    def _endpoint_of(self, listener: ClientListener) -> Endpoint:
        security, protocol = self._security, listener.protocol
        clock_s = self._listener.context.loop.time
        return Endpoint(
            listener.name,
            protocol,
            tls=TlsCertificates(security, clock_s, client_auth=security.client_auth_of(protocol))
            if protocol.has_tls
            else None,
            sasl=security if protocol.has_sasl else None,
            authentication_timeout_s=security.connection_authentication_timeout_ms / 1000,
        )

    def _advertised(self, listener: ClientListener, port: int) -> BrokerEndpoint:
        host = listener.host_for_clients(self._spec.host)
        return BrokerEndpoint(listener.name, str(listener.protocol), host, listener.advertised_port or port)
