"""Those who follow the metadata, and what is kept to tell them of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from eagleray.broker.controller.changes import Change
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.events import FollowMetadata, MetadataFollowed
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode


class Followers:
    """Answers those who know some version of the metadata and want to know what came after.

    Owns: the last changes, a bounded number of them, and who waits for the next. Persists: nothing; after a restart
    whoever is behind is sent the whole image, and whoever waited asks again. A follower that is ahead has seen what
    the log has lost since, and is sent the whole image as well.
    """

    def __init__(self, config: ControllerConfig) -> None:
        self._max_wait_ms = config.metadata_max_wait_ms
        self._changes: deque[Change] = deque(maxlen=config.metadata_changes_kept)
        self._waiting: list[tuple[int, FollowMetadata]] = []

    def ask(self, request: FollowMetadata, image: MetadataImage, now_ms: int) -> list[MetadataFollowed]:
        """Answer where there is news, or where nothing may be waited for; otherwise let the follower wait."""
        wait_ms = min(request.max_wait_ms, self._max_wait_ms)
        if request.version != image.version or wait_ms <= 0:
            return [self._answer(request, image)]
        self._waiting.append((now_ms + wait_ms, request))
        return []

    def tell(self, changes: Sequence[Change], image: MetadataImage) -> list[MetadataFollowed]:
        """Tell everybody who waits of changes that have led to this image."""
        self._changes.extend(changes)
        waiting, self._waiting = self._waiting, []
        return [self._answer(request, image) for _, request in waiting]

    @property
    def next_due_ms(self) -> int:
        """When a follower has waited long enough."""
        return min([deadline_ms for deadline_ms, _ in self._waiting], default=NEVER_MS)

    def expire(self, image: MetadataImage, now_ms: int) -> list[MetadataFollowed]:
        """Tell those who have waited long enough that there is no news."""
        over = [request for deadline_ms, request in self._waiting if deadline_ms <= now_ms]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > now_ms]
        return [self._answer(request, image) for request in over]

    def _answer(self, request: FollowMetadata, image: MetadataImage) -> MetadataFollowed:
        behind = image.version - request.version
        if not 0 <= behind <= len(self._changes):
            return MetadataFollowed(request.request_id, ErrorCode.NONE, image.version, (), image)
        changes = tuple(islice(self._changes, len(self._changes) - behind, None))
        return MetadataFollowed(request.request_id, ErrorCode.NONE, image.version, changes)
