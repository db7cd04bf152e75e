"""Which APIs are served, in which versions, and by whom."""

from __future__ import annotations

from typing import Final

from eagleray.actors.wire.handlers import api_versions
from eagleray.actors.wire.served import Served, serve
from eagleray.protocol.messages.api_versions import ApiVersionsRequest

SERVED: Final[dict[int, Served]] = {
    served.api.key: served for served in (serve(ApiVersionsRequest, api_versions, 0, 5),)
}
"""By API key. What is served may be less than what the codec knows, never more."""
