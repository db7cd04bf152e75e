"""One request in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagleray.actors.lanes.link import Fields, OnReply, Reply, RequestType
from eagleray.actors.shell import Host
from eagleray.actors.wire.served import Served
from eagleray.protocol.codec import Buffer, encode_response, encode_response_buffers
from eagleray.protocol.messages.headers import RequestHeader

if TYPE_CHECKING:
    from eagleray.actors.wire.advertised import Advertised
    from eagleray.actors.wire.connection import Connection
    from eagleray.actors.wire.listener import Listener


class Call:
    """A request that waits for its answer, with what a handler needs to know beside the request itself.

    A handler answers it exactly once, with `answer` or `answer_nothing`, now or later. Answers leave the connection in
    the order of the requests, whoever is ready first. What is answered after the connection has gone is dropped.
    """

    __slots__ = (
        "_connection",
        "_correlation_id",
        "api_version",
        "client_id",
        "encoded",
        "host",
        "is_answered",
        "request",
        "served",
        "size_bytes",
    )

    def __init__(
        self,
        connection: Connection,
        served: Served,
        header: RequestHeader,
        request: Any,  # noqa: ANN401 - the request that the API has
        size_bytes: int,
    ) -> None:
        self._connection = connection
        self._correlation_id = header.correlation_id
        self.api_version = header.request_api_version
        self.client_id = header.client_id
        self.host: Host = connection.listener.host
        self.served = served
        self.request = request
        self.size_bytes = size_bytes
        self.is_answered = False
        self.encoded: bytes | list[Buffer] = b""

    @property
    def client_host(self) -> str:
        """The address that the request came from."""
        return self._connection.peer_host

    @property
    def listener(self) -> Listener:
        """The listener that the request came in by, with its settings and what all connections share."""
        return self._connection.listener

    @property
    def advertised(self) -> Advertised:
        """Who is in Metadata: the brokers, and which of them is named as the controller."""
        return self._connection.listener.advertised

    def has_role(self, role: str) -> bool:
        """Whether this node plays a role, so that it can be asked by its own node id."""
        return role in self.host.spec.roles

    def ask(
        self,
        node_id: int,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a node like `host.peers.ask`; an error in `on_reply` fails this call and nothing else."""
        self.host.peers.ask(node_id, self._guarded(on_reply), message_type, *fields, **named)

    def ask_controller(
        self,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller, whichever node that is; an error in `on_reply` fails this call and nothing else."""
        self.host.controller.ask(self._guarded(on_reply), message_type, *fields, **named)

    def _guarded(self, on_reply: OnReply[Reply]) -> OnReply[Reply]:
        def received(reply: Reply | None) -> None:
            try:
                on_reply(reply)
            except Exception as error:  # noqa: BLE001 - it would end the node, whose state is not touched
                self.fail(error)

        return received

    def after(self, delay_s: float, act: Callable[..., None], *arguments: object) -> None:
        """Go on in a while; an error in `act` fails this call and nothing else."""

        def go_on() -> None:
            try:
                act(*arguments)
            except Exception as error:  # noqa: BLE001 - nobody else would answer the request
                self.fail(error)

        self.host.loop.call_later(delay_s, go_on)

    def ask_here(
        self,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a role of this very node."""
        self.ask(self.host.spec.node_id, on_reply, message_type, *fields, **named)

    def answer(self, response: Any) -> None:  # noqa: ANN401 - the response that belongs to the request
        """Answer with the response Struct."""
        assert not self.is_answered, f"{type(response).__name__} is the second answer"
        if self.served.has_large_records:
            self.encoded = encode_response_buffers(response, self.api_version, self._correlation_id)
        else:
            self.encoded = encode_response(response, self.api_version, self._correlation_id)
        self.is_answered = True
        self._connection.answered(self)

    def answer_nothing(self) -> None:
        """Be done with a request that wants no answer."""
        assert not self.is_answered, "a call is answered once"
        self.is_answered = True
        self._connection.answered(self)

    def disconnect(self, sentence: str) -> None:
        """Close the connection, and say why in the log: where no answer can tell the client what it has to know."""
        self._connection.refuse(type(self.request).__name__, sentence)

    def fail(self, error: BaseException) -> None:
        """Give up because of an error that nobody expected."""
        self._connection.failed(self, error)
