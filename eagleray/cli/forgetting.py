"""Having coordinators forget transactional ids that were made for one run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from eagleray.broker.transactions.events import ForgetTransactionalId, TransactionDescription
from eagleray.client.calls import RetryPolicy, call_with_retries

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_AT_ONCE: Final = 100


async def forget_ids(session: Session, prefix: str) -> None:
    """Have every transactional id forgotten that begins so; otherwise coordinators keep it for days."""
    listed = await session.cluster.admin.list_transactions()
    ours = [found for found in listed if found.transactional_id.startswith(prefix)]
    for first in range(0, len(ours), _AT_ONCE):
        await asyncio.gather(*(_forget(session, found) for found in ours[first : first + _AT_ONCE]))


async def _forget(session: Session, found: TransactionDescription) -> None:
    runtime, name = session.cluster.runtime, found.transactional_id
    await call_with_retries(
        runtime,
        lambda: runtime.view.transaction_coordinator(name),
        f"forgetting transactional id {name!r}",
        ForgetTransactionalId,
        name,
        found.producer,
        retry_policy=RetryPolicy(),
    )
