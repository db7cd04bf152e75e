"""The nodes and clients that follow the metadata, and the changes that are kept for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.events import FollowMetadata, MetadataFollowed, Respond
from eagleray.broker.metadata.changes import Change
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode


class Followers:
    """Answers nodes and clients that know some version of the metadata and want to know what came after.

    Owns: the last changes, a bounded number of them, and the questions that wait for the next. Persists: nothing; after
    a restart followers that waited ask again, and those that are behind are sent the whole image. A follower that has
    seen what the log has lost since is refused: it is not to go back.
    """

    def __init__(self, config: ControllerConfig) -> None:
        self._max_wait_ms = config.metadata_max_wait_ms
        self._changes: deque[Change] = deque(maxlen=config.metadata_changes_kept)
        self._waiting: list[tuple[int, FollowMetadata]] = []

    def ask(self, request: FollowMetadata, image: MetadataImage, now_ms: int) -> Respond | None:
        """Answer where there is news, or where nothing may be waited for; otherwise let the follower wait."""
        wait_ms = min(request.max_wait_ms, self._max_wait_ms)
        if request.version != image.version or wait_ms <= 0 or not image.includes(request.position):
            return self._answer(request, image)
        self._waiting.append((now_ms + wait_ms, request))
        return None

    def tell(self, changes: Sequence[Change], image: MetadataImage) -> list[Respond]:
        """Tell all followers that wait of changes that have led to this image."""
        self._changes.extend(changes)
        return [self._answer(request, image) for request in self.take_waiting()]

    def take_waiting(self) -> list[FollowMetadata]:
        """Return who waits, and let them wait no longer."""
        waiting, self._waiting = self._waiting, []
        return [request for _, request in waiting]

    @property
    def next_due_ms(self) -> int:
        """When a follower has waited long enough."""
        return min([deadline_ms for deadline_ms, _ in self._waiting], default=NEVER_MS)

    def expire(self, image: MetadataImage, now_ms: int) -> list[Respond]:
        """Tell the followers that have waited long enough that there is no news."""
        over = [request for deadline_ms, request in self._waiting if deadline_ms <= now_ms]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > now_ms]
        return [self._answer(request, image) for request in over]

    def _answer(self, request: FollowMetadata, image: MetadataImage) -> Respond:
        if not image.includes(request.position):
            return Respond(request, request.refused(ErrorCode.STALE_CONTROLLER_EPOCH))
        behind = image.version - request.version
        followed: tuple[tuple[Change, ...], MetadataImage | None] = ((), image)
        if 0 <= behind <= len(self._changes):
            followed = tuple(islice(self._changes, len(self._changes) - behind, None)), None
        return Respond(request, MetadataFollowed(request.request_id, ErrorCode.NONE, image.version, *followed))
