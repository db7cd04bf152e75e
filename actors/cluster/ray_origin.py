"""What this process runs in, as Ray knows it: for those who ask whose transaction it is that holds them back."""

from __future__ import annotations

import logging

import ray
from ray.util import get_node_ip_address

from eagleray.broker.transactions.origin import Origin

_log = logging.getLogger(__name__)


def task_of_this_thread() -> str:
    """Return the actor that this process is, by its name, or the task that this thread runs; empty for a driver."""
    if not ray.is_initialized():
        return ""
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return ""
    return str(context.get_actor_name() or context.get_task_name() or "")


def namespace_in_ray() -> str:
    """Return the namespace of the Ray job of this process, in which its actors have their names; empty without Ray."""
    return str(ray.get_runtime_context().namespace) if ray.is_initialized() else ""


def origin_in_ray(client_id: str, task: str) -> Origin:
    """Return the Ray job of this process, with the task that it was told; no job where it is not in Ray."""
    if not ray.is_initialized():
        return Origin(client_id=client_id)
    try:
        address = str(get_node_ip_address())  # type: ignore[no-untyped-call] # Ray gives it no types
        return Origin(address, client_id, str(ray.get_runtime_context().get_job_id()), task)
    except Exception as error:  # noqa: BLE001 - whatever Ray raises, the program goes on without it
        _log.info("Ray does not say what this process runs in: %s", error)
        return Origin(client_id=client_id)
