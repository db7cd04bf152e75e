"""One Kafka request in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eagleray.actors.common.controller_channel import ControllerAnswer
from eagleray.actors.kafka_server.api_handler import ApiHandler
from eagleray.actors.kafka_server.context import ListenerContext
from eagleray.actors.kafka_server.guard_questions import GuardQuestions
from eagleray.actors.kafka_server.identity import Identity
from eagleray.actors.lanes.link import Fields, OnReply, Reply, RequestType
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection
from eagleray.protocol.codec import Buffer, encode_response, encode_response_buffers
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.headers import RequestHeader

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.advertised import Advertised
    from eagleray.actors.kafka_server.connection import Connection
    from eagleray.actors.kafka_server.listener import Listener


class Call:
    """A request that waits for its response, with what a handler needs besides the request itself.

    A handler answers it exactly once, with `answer` or `answer_nothing`, now or later. Responses leave the connection
    in the order of the requests, whichever is ready first. What is answered after the connection has closed is dropped.
    """

    __slots__ = (
        "_connection",
        "_correlation_id",
        "api_version",
        "client_id",
        "context",
        "encoded",
        "is_answered",
        "request",
        "served",
        "size_bytes",
    )

    def __init__(
        self,
        connection: Connection,
        served: ApiHandler,
        header: RequestHeader,
        request: Message | None,
        size_bytes: int,
    ) -> None:
        self._connection = connection
        self._correlation_id = header.correlation_id
        self.api_version = header.request_api_version
        self.client_id = header.client_id
        self.context: ListenerContext = connection.listener.context
        self.served = served
        self.request = request
        self.size_bytes = size_bytes
        self.is_answered = False
        self.encoded: bytes | list[Buffer] = b""

    @property
    def encoded_bytes(self) -> int:
        """The size of the response, once there is one."""
        encoded = self.encoded
        return len(encoded) if isinstance(encoded, bytes) else sum(map(len, encoded))

    @property
    def client_host(self) -> str:
        """The address that the request came from."""
        return self._connection.peer_host

    @property
    def identity(self) -> Identity:
        """Who the client is."""
        return self._connection.identity

    def authenticated_again(self, identity: Identity) -> None:
        """Let the connection go on with a session that ends later."""
        self._connection.identity = identity
        self._connection.listener.look_soon(self._connection)

    def close_after_answer(self) -> None:
        """Take no more requests of this connection, and close it when those in flight are answered."""
        self._connection.finish()

    @property
    def listener(self) -> Listener:
        """The listener that received the request, with its settings and what all connections share."""
        return self._connection.listener

    @property
    def advertised(self) -> Advertised:
        """The brokers in Metadata, where clients of this listener reach them, and which is named as the controller."""
        return self._connection.listener.advertised(self._connection.endpoint.listener_name)

    def sender(self, role: ProcessRole, transactional_id: str) -> ClientConnection:
        """Say by which connection the request has come, for a coordinator of this node that guards transactions."""
        connection = self._connection
        if connection.questions is None:
            connection.questions = GuardQuestions()
        return ClientConnection(connection.number, connection.questions.heard(role, transactional_id))

    def note_question(self, role: ProcessRole, transactional_id: str, question: int) -> None:
        """Note the question that the answer to this request puts to the connection, if it puts one."""
        questions = self._connection.questions
        if question != NO_QUESTION and questions is not None:
            questions.asked(self, role, transactional_id, question)

    def has_role(self, role: str) -> bool:
        """Whether this node has a role, so that it can be asked by its own node id."""
        return role in self.context.spec.roles

    def ask(
        self,
        node_id: int,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a node like `context.peers.ask`; an error in `on_reply` fails this call and nothing else."""
        self.context.peers.ask(node_id, self._guarded(on_reply), message_type, *fields, **named)

    def ask_controller(
        self,
        on_reply: OnReply[ControllerAnswer],
        message_type: RequestType[Fields, ControllerAnswer],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask the controller, whichever node that is; an error in `on_reply` fails this call and nothing else."""
        self.context.controller.ask(self._guarded(on_reply), message_type, *fields, **named)

    def _guarded(self, on_reply: OnReply[Reply]) -> OnReply[Reply]:
        def received(reply: Reply | None) -> None:
            try:
                if getattr(reply, "error_code", None) is ErrorCode.UNKNOWN_SERVER_ERROR:
                    self._connection.log_failed_in_role(self)
                on_reply(reply)
            except Exception as error:  # noqa: BLE001 - it would end the node, whose state is not touched
                self.fail(error)

        return received

    def after(self, delay_s: float, act: Callable[..., None], *arguments: object) -> None:
        """Call `act` after a delay; an error in it fails this call and nothing else."""

        def go_on() -> None:
            try:
                act(*arguments)
            except Exception as error:  # noqa: BLE001 - nothing else would answer the request
                self.fail(error)

        self.context.loop.call_later(delay_s, go_on)

    def ask_here(
        self,
        on_reply: OnReply[Reply],
        message_type: RequestType[Fields, Reply],
        *fields: Fields.args,
        **named: Fields.kwargs,
    ) -> None:
        """Ask a role of this very node."""
        self.ask(self.context.spec.node_id, on_reply, message_type, *fields, **named)

    def answer(self, response: Message) -> None:
        """Answer with the response that belongs to the request."""
        assert not self.is_answered, f"{type(response).__name__} is the second answer"
        if self.served.has_large_records:
            self.encoded = encode_response_buffers(response, self.api_version, self._correlation_id)
        else:
            self.encoded = encode_response(response, self.api_version, self._correlation_id)
        self.is_answered = True
        self._connection.answered(self)

    def answer_nothing(self) -> None:
        """Finish a request that wants no response."""
        assert not self.is_answered, "a call is answered once"
        self.is_answered = True
        self._connection.answered(self)

    def disconnect(self, sentence: str) -> None:
        """Close the connection and log why, where no response can tell the client what it has to know."""
        self._connection.refuse(type(self.request).__name__, sentence)

    def fail(self, error: BaseException) -> None:
        """Fail because of an unexpected error."""
        self._connection.failed(self, error)
