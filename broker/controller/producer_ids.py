"""Producer ids: no id belongs to two, whoever asks and whatever crashes."""

from __future__ import annotations

from typing import Final

from eagleray.broker.controller.changes import ProducerIdsTaken
from eagleray.broker.controller.decisions import Decision, decide, refuse
from eagleray.broker.controller.events import ProducerIdsReserved, ReserveProducerIds
from eagleray.broker.controller.image import MetadataImage
from eagleray.protocol.errors import ErrorCode

LAST_PRODUCER_ID: Final = 2**63 - 1


def reserve_producer_ids(request: ReserveProducerIds, image: MetadataImage) -> Decision:
    """Give the ids that come after all that were given: for good, as soon as the log has it."""
    first_id = image.next_producer_id
    if request.count < 1:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    if first_id + request.count > LAST_PRODUCER_ID:
        return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    answer = ProducerIdsReserved(request.request_id, ErrorCode.NONE, first_id, request.count)
    return decide(answer, [ProducerIdsTaken(first_id + request.count)])
