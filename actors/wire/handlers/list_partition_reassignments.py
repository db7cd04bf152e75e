"""ListPartitionReassignments: key 46, version 0.

A partition has one replica, which is moved in one step: none is ever on its way.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001 - whichever it asks for
    call: AdminCall,  # noqa: ARG001 - all handlers take it
) -> ListPartitionReassignmentsResponse:
    """List nothing."""
    return ListPartitionReassignmentsResponse(error_message=None)
