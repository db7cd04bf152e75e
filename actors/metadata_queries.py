"""What any node answers from the metadata that it follows."""

from __future__ import annotations

from functools import partial
from typing import Any

from eagleray.actors.shell import Host
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.controller.metadata import answer_metadata, describe_configs


class MetadataQueries:
    """Answers in the next turn; these are not for any role."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def post(self, request: Any) -> None:  # noqa: ANN401 - one of NODE_REQUESTS
        """Answer a question about the metadata."""
        image = self._host.image
        reply = (
            answer_metadata(image, request) if isinstance(request, GetMetadata) else describe_configs(image, request)
        )
        self._host.turn.act(partial(self._host.answer, reply))
