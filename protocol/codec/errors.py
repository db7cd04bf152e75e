"""What can go wrong between bytes and messages."""

from eagleray.protocol.errors import ErrorCode, ProtocolError


class _MessageError(ProtocolError):
    """Something about one message; it is pickled by what it was made of, and not by its text."""

    def __init__(self, message: str, version: int | None, reason: str) -> None:
        name = message if version is None else f"{message} version {version}"
        super().__init__(f"{name}: {reason}")
        self.message = message
        self.version = version
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str]]:
        return type(self), (self.message, self.version, self.reason)


class MalformedMessage(_MessageError):
    """Bytes that are no such message: cut short, too long, or with lengths, tags or text that cannot be."""


class UnencodableMessage(_MessageError):
    """A value that this version of the message cannot carry: out of range, null, or in a field it lacks."""

    error_code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnsupportedVersion(ProtocolError):
    """A message that is known, in a version that is not.

    For a request it carries the correlation id, with which a broker can still answer: a client that asks for
    ApiVersions in a version too new expects to be told so.
    """

    error_code = ErrorCode.UNSUPPORTED_VERSION

    def __init__(
        self,
        message: str,
        version: int,
        supported: tuple[int, int],
        api_key: int | None = None,
        correlation_id: int | None = None,
    ) -> None:
        lowest, highest = supported
        super().__init__(f"{message} version {version} is outside {lowest} to {highest}")
        self.message = message
        self.version = version
        self.supported = supported
        self.api_key = api_key
        self.correlation_id = correlation_id

    def __reduce__(self) -> tuple[type, tuple[str, int, tuple[int, int], int | None, int | None]]:
        return type(self), (self.message, self.version, self.supported, self.api_key, self.correlation_id)


class UnknownApi(ProtocolError):
    """An API key that no message has."""

    def __init__(self, api_key: int) -> None:
        super().__init__(f"there is no API with key {api_key}")
        self.api_key = api_key

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.api_key,)
