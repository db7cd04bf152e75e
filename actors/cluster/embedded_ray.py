"""Ray for the clusters of this process: one that it joins, or one of its own on loopback, with temporary files."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import ray
from ray._private import ray_constants, services
from ray._private import worker as ray_worker
from ray._raylet import Config  # type: ignore[attr-defined] # compiled, and not typed

from eagleray.actors.cluster.ray_processes import kept_sigterm, kill_all, own_sessions, remove_folder
from eagleray.actors.cluster.worker_paths import job_config

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024
"""The least that Ray takes without complaint; messages do not pass through the object store."""


_START_S: Final = 150.0
_SYSTEM_CONFIG: Final = {
    # Ray would run the nodes behind everything else on the machine, clients included.
    "worker_niceness": 0,
    # Ray ends itself where its own agent takes longer to start, which it does on a busy machine.
    "agent_register_timeout_ms": int(_START_S * 1000),
}


class _OurRay:
    """The Ray cluster that this module has joined or started, and how many `EmbeddedRay`s use it."""

    def __init__(self, temporary: str | None) -> None:
        self.temporary = temporary
        self.users = 0
        self._job = _job()

    def is_current(self) -> bool:
        """Whether this process is still in it: the application may have left it, and joined another."""
        return self._job == _job()

    def end(self) -> None:
        if self.is_current():
            ray.shutdown()
        if self.temporary is not None:
            remove_folder(self.temporary)


def _job() -> tuple[str, str]:
    if not ray.is_initialized():
        return "", ""
    context = ray.get_runtime_context()
    return str(context.gcs_address), str(context.get_job_id())


_lock: Final = threading.Lock()
_ours: list[_OurRay] = []
"""One, or none: a process is in one Ray cluster at a time."""


class EmbeddedRay:
    """Ray for a cluster of this process: joined, or started without an address, unless that was done before.

    All objects share what the first of them has joined, and the last that is closed leaves it. A Ray that the
    application joined by itself is used and never left.
    """

    def __init__(self, address: str | None = None) -> None:
        with _lock:
            if not ray.is_initialized():
                _ours[:] = [_join(address)]
            self._ray = next((each for each in _ours if each.is_current()), None)
            if self._ray is not None:
                self._ray.users += 1

    def close(self) -> None:
        """Leave Ray, and end it where it was started here, unless other objects of this process still use it."""
        with _lock:
            used, self._ray = self._ray, None
            if used is None:
                return
            used.users -= 1
            if used.users:
                return
            if used in _ours:
                _ours.remove(used)
            used.end()

    def discard(self) -> None:
        """End Ray at once, where it was started here, with all that runs on it: for a program that has no more time."""
        if self._ray is not None and self._ray.temporary is not None:
            kill_all()
            remove_folder(self._ray.temporary)


def _join(address: str | None) -> _OurRay:
    if address is None or address.startswith(LOOPBACK):
        _stay_on_loopback()
    keep_quiet()
    if address is not None:
        present_token()
        with kept_sigterm():
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, job_config=job_config())
        return _OurRay(None)
    # Sockets have short names, and Ray puts them deep into this directory.
    temporary = tempfile.mkdtemp(prefix="er-")
    try:
        with longer_start_timeout(), own_sessions(), kept_sigterm():
            _start(temporary)
    except BaseException:
        ray.shutdown()
        remove_folder(temporary)
        raise
    return _OurRay(temporary)


def _start(temporary: str) -> None:
    ray.init(
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.WARNING,
        job_config=job_config(),
        object_store_memory=_OBJECT_STORE_BYTES,
        _node_ip_address=LOOPBACK,
        _temp_dir=temporary,
        # Ray writes into it where its objects spill, and the next Ray of this process would spill there too.
        _system_config=dict(_SYSTEM_CONFIG),
    )


@contextmanager
def longer_start_timeout() -> Iterator[None]:
    """Wait longer for Ray's own processes than Ray does: on a busy machine they take more than its half a minute.

    Without this Ray gives up half-way, and leaves behind what it had started.
    """
    get_node = services.get_node

    def get_node_in_longer_time(*arguments: object) -> object:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                return get_node(*arguments)  # type: ignore[no-untyped-call] # Ray has not typed it
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    services.get_node = get_node_in_longer_time
    try:
        yield
    finally:
        services.get_node = get_node


def _stay_on_loopback() -> None:
    """Keep Ray from taking the address of the network card, which it does whatever it is told.

    The environment is for the processes that Ray starts; this one read it when Ray was loaded.
    """
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False


def keep_quiet() -> None:
    """Keep Ray from writing into a program's output: about tokens, and about workers and machines that have died.

    The broker's workers are started again, and Ray prints their death whatever its log settings.
    """
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    ray_worker.print_to_stdstream = _log_from_ray


def _log_from_ray(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    del ignore_prefix
    for line in data["lines"]:
        _log.info("Ray: %s", line)


def present_token() -> None:
    """Make this process show Ray's token where there is one: Ray does so by itself only where it starts a cluster.

    Ray read the environment when it was loaded, and has to read it again.
    """
    if "RAY_AUTH_MODE" not in os.environ and os.path.exists(os.path.expanduser("~/.ray/auth_token")):
        os.environ["RAY_AUTH_MODE"] = "token"
        Config.initialize("")


def address_of_this_node() -> str:
    """The address under which other nodes of the Ray cluster reach this one."""
    this_node = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, str]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray has not typed it
    (address,) = [node["NodeManagerAddress"] for node in nodes if node["NodeID"] == this_node]
    return str(address)
