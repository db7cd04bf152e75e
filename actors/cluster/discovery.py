"""Finding a running cluster by its name, whichever of its machines are up."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from typing import Final

import ray

from eagleray.actors.cluster.supervision import find_actor, running_nodes
from eagleray.actors.lanes.peers import Endpoint, Lane, Peers, Unanswered, Unreachable
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.metadata.nodes import FIRST_DEDICATED_NODE_ID

_log = logging.getLogger(__name__)

_HEAD_START_S: Final = 1.0
"""How long the first node is asked alone: mostly it answers, and is the controller."""


class NoSuchCluster(Exception):
    """There is no cluster of this name on this Ray cluster."""


async def find_cluster(name: str, lane: Lane = Lane.RAY) -> ClusterCredentials:
    """Find a running cluster by its name; raises NoSuchCluster, and Unanswered where none of its nodes answers.

    Ray says where nodes listen; what they know is asked by `lane`, and Unreachable is raised where that does not lead
    to them. The first node may be on a machine that is gone; then all the others are asked at once.
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
    """Return the first answer of a node that has joined; without one, any answer."""
    empty: ClusterCredentials | None = None
    errors: list[Unanswered] = []
    for question in asyncio.as_completed(asked):
        try:
            credentials = await question
        except Unanswered as error:
            _log.info("%s", error)
            errors.append(error)
            continue
        if credentials.image.version > 0:
            return credentials
        empty = credentials
    if empty is None:
        raise _as_one(name, errors)
    return empty


def _as_one(name: str, errors: list[Unanswered]) -> Unanswered:
    unreachable = next((error for error in errors if isinstance(error, Unreachable)), None)
    return unreachable or Unanswered(f"no node of cluster {name!r} answers: {'; '.join(map(str, errors))}")


async def _ask(name: str, node_id: int, lane: Lane) -> ClusterCredentials:
    try:
        host, port, token = await find_actor(name, node_id).contact.remote()
    except (ValueError, ray.exceptions.RayError) as error:
        raise Unanswered(f"node {node_id} is not there: {type(error).__name__}") from error
    with closing(Peers(token=token, actor_of=lambda node_id: find_actor(name, node_id), lane=lane)) as peers:
        peers.learn({node_id: Endpoint(host, port)})
        answer: MetadataAnswered = await peers.call(node_id, GetMetadata)
    return credentials_from(node_id, token, answer)


def credentials_from(node_id: int, token: bytes, answer: MetadataAnswered) -> ClusterCredentials:
    """Take what a node knows of its cluster, the controller or not: while one is elected, no node is.

    Raises Unanswered where the node has answered with an error.
    """
    if not answer.has_image:
        raise Unanswered(f"node {node_id} answered {answer.error_code.name}")
    return ClusterCredentials(token, answer.image)
