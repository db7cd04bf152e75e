"""Finding a running cluster by its name, whichever of its machines are there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import ray

from eagleray.actors.contact import Contact
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered
from eagleray.actors.supervision import find_actor, running_nodes
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.controller.nodes import FIRST_DEDICATED_NODE_ID
from eagleray.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_HEAD_START_S: Final = 1.0
"""How long the first node is asked alone: most of the time it answers, and is the controller."""


class ClusterNotFound(Exception):
    """There is no cluster of this name on this Ray cluster."""


async def find_cluster(name: str) -> Contact:
    """Find a running cluster by its name; raises ClusterNotFound, and Unanswered where none of its nodes answers.

    The first node may be on a machine that is gone; then any other will do, and all of them are asked at once.
    """
    node_ids = [node_id for node_id in running_nodes(name) if node_id < FIRST_DEDICATED_NODE_ID]
    if not node_ids:
        raise ClusterNotFound(
            f"there is no Eagleray cluster named {name!r} on this Ray cluster; "
            "start one with eagleray.start() or `eagleray start`"
        )
    asked = [asyncio.ensure_future(_ask(name, node_ids[0]))]
    try:
        await asyncio.wait(asked, timeout=_HEAD_START_S)
        if not asked[0].done() or asked[0].exception() is not None:
            asked += [asyncio.ensure_future(_ask(name, node_id)) for node_id in node_ids[1:]]
        return await _first_answer(name, asked)
    finally:
        for question in asked:
            question.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _first_answer(name: str, asked: list[asyncio.Task[Contact]]) -> Contact:
    """The first answer of a node that has joined; that of another where there is no better one."""
    empty: Contact | None = None
    for question in asyncio.as_completed(asked):
        try:
            contact = await question
        except Unanswered as error:
            _log.info("%s", error)
            continue
        if contact.image.version > 0:
            return contact
        empty = contact
    if empty is None:
        raise Unanswered(f"no node of cluster {name!r} answers")
    return empty


async def _ask(name: str, node_id: int) -> Contact:
    """Ask one node for the token and for what it knows of the cluster."""
    try:
        _, _, token = await find_actor(name, node_id).contact.remote()
    except (ValueError, ray.exceptions.RayError) as error:
        raise Unanswered(f"node {node_id} is not there: {type(error).__name__}") from error
    async with _lanes(name, token) as peers:
        answer: MetadataAnswered = await peers.call(node_id, GetMetadata)
    if answer.error_code is not ErrorCode.NONE:
        raise Unanswered(f"node {node_id} answered {answer.error_code.name}")
    return Contact(token, answer.image)


@asynccontextmanager
async def _lanes(name: str, token: bytes) -> AsyncIterator[Peers]:
    peers = Peers(token=token, actor_of=lambda node_id: find_actor(name, node_id), lane=Lane.RAY)
    try:
        yield peers
    finally:
        peers.close()
