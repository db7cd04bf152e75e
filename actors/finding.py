"""Finding a running cluster by its name, whichever of its machines are there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import ray

from eagleray.actors.cluster_credentials import ClusterCredentials
from eagleray.actors.lanes.peers import Endpoint, Lane, Peers, Unanswered, Unreachable
from eagleray.actors.supervision import find_actor, running_nodes
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.controller.nodes import FIRST_DEDICATED_NODE_ID
from eagleray.protocol.errors import ErrorCode

_log = logging.getLogger(__name__)

_HEAD_START_S: Final = 1.0
"""How long the first node is asked alone: most of the time it answers, and is the controller."""


class NoSuchCluster(Exception):
    """There is no cluster of this name on this Ray cluster."""


async def find_cluster(name: str, lane: Lane = Lane.RAY) -> ClusterCredentials:
    """Find a running cluster by its name; raises NoSuchCluster, and Unanswered where none of its nodes answers.

    Ray says where nodes listen; what they know is asked by `lane`, which shows whether that leads to them: Unreachable
    is raised where it does not. The first node may be on a machine that is gone; then any other will do, and all of
    them are asked at once.
    """
    node_ids = [node_id for node_id in running_nodes(name) if node_id < FIRST_DEDICATED_NODE_ID]
    if not node_ids:
        raise NoSuchCluster(f"there is no Eagleray cluster named {name!r} on this Ray cluster")
    asked = [asyncio.ensure_future(_ask(name, node_ids[0], lane))]
    try:
        await asyncio.wait(asked, timeout=_HEAD_START_S)
        if not asked[0].done() or asked[0].exception() is not None:
            asked += [asyncio.ensure_future(_ask(name, node_id, lane)) for node_id in node_ids[1:]]
        return await _first_answer(name, asked)
    finally:
        for question in asked:
            question.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _first_answer(name: str, asked: list[asyncio.Task[ClusterCredentials]]) -> ClusterCredentials:
    """The first answer of a node that has joined; that of another where there is no better one."""
    empty: ClusterCredentials | None = None
    unreachable: Unreachable | None = None
    for question in asyncio.as_completed(asked):
        try:
            credentials = await question
        except Unanswered as error:
            _log.info("%s", error)
            if isinstance(error, Unreachable):
                unreachable = error
            continue
        if credentials.image.version > 0:
            return credentials
        empty = credentials
    if empty is None:
        raise unreachable or Unanswered(f"no node of cluster {name!r} answers")
    return empty


async def _ask(name: str, node_id: int, lane: Lane) -> ClusterCredentials:
    """Ask one node for the token and for what it knows of the cluster."""
    try:
        host, port, token = await find_actor(name, node_id).contact.remote()
    except (ValueError, ray.exceptions.RayError) as error:
        raise Unanswered(f"node {node_id} is not there: {type(error).__name__}") from error
    async with _lanes(name, token, lane) as peers:
        peers.learn({node_id: Endpoint(host, port)})
        answer: MetadataAnswered = await peers.call(node_id, GetMetadata)
    if answer.error_code is not ErrorCode.NONE:
        raise Unanswered(f"node {node_id} answered {answer.error_code.name}")
    return ClusterCredentials(token, answer.image)


@asynccontextmanager
async def _lanes(name: str, token: bytes, lane: Lane) -> AsyncIterator[Peers]:
    peers = Peers(token=token, actor_of=lambda node_id: find_actor(name, node_id), lane=lane)
    try:
        yield peers
    finally:
        peers.close()
