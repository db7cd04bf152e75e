"""Which APIs there are: their keys, their messages and the versions of their headers."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType

from msgspec import Struct

from eagleray.protocol import messages
from eagleray.protocol.codec.errors import UnknownApi, UnsupportedVersion
from eagleray.protocol.messages.annotations import Message


class Api(Struct, frozen=True):
    """A request and the response to it, which always have the same versions."""

    request: type[Message]
    response: type[Message]

    @property
    def key(self) -> int:
        """The number that stands for the API on the wire."""
        assert self.request.wire.api_key is not None
        return self.request.wire.api_key

    @property
    def name(self) -> str:
        """The name of the API, as in Kafka's documentation."""
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> tuple[int, int]:
        """The lowest and the highest version."""
        return self.request.wire.versions

    def request_header_version(self, version: int) -> int:
        """Give the version of the header before a request."""
        return 2 if self.request.wire.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Give the version of the header before a response.

        ApiVersions always has the oldest header: the client that asks does not know yet how old the broker is.
        """
        return 1 if self.response.wire.is_flexible(version) and self.key != API_VERSIONS_KEY else 0

    def check_version(self, version: int, correlation_id: int | None = None) -> None:
        """Raise UnsupportedVersion if the API has no such version."""
        if not self.request.wire.is_valid(version):
            raise UnsupportedVersion(self.name, version, self.versions, self.key, correlation_id)


API_VERSIONS_KEY = 18


def _api_in(module: ModuleType) -> Api | None:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Message)]
    requests = [kind for kind in kinds if kind.__name__.endswith("Request")]
    if not requests:
        # The records of a coordinator's log, for example.
        return None
    (request,), (response,) = requests, [kind for kind in kinds if kind.__name__.endswith("Response")]
    return Api(request, response)


def _find_apis() -> Iterator[Api]:
    names = (found.name for found in iter_modules(messages.__path__, f"{messages.__name__}."))
    return filter(None, map(_api_in, map(import_module, names)))


APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in sorted(_find_apis(), key=lambda api: api.key)})
"""By their keys. Each module of the messages that has a request has an API."""


def find_api(api_key: int) -> Api:
    """Give the API with this key, or raise UnknownApi."""
    try:
        return APIS[api_key]
    except KeyError:
        raise UnknownApi(api_key) from None
