"""A Ray cluster of this process's own, on loopback, with a temporary directory that goes when it goes."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import ray
from ray._private import ray_constants, services
from ray._private import worker as ray_worker
from ray._raylet import Config  # type: ignore[attr-defined] # compiled, and not typed

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


class EmbeddedRay:
    """Ray, started here and ended here, unless this process has joined a cluster before: then that one is used."""

    def __init__(self, address: str | None = None) -> None:
        self._temporary: str | None = None
        if ray.is_initialized():
            return
        if address is None or address.startswith(LOOPBACK):
            _stay_on_loopback()
        _keep_quiet()
        if address is not None:
            _present_token()
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
            return
        # Sockets have short names, and Ray puts them deep into this directory.
        self._temporary = tempfile.mkdtemp(prefix="er-")
        try:
            with patience():
                self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        ray.init(
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            object_store_memory=_OBJECT_STORE_BYTES,
            _node_ip_address=LOOPBACK,
            _temp_dir=self._temporary,
            _system_config=_SYSTEM_CONFIG,
        )

    def close(self) -> None:
        """End Ray, where it was started here."""
        if self._temporary is None:
            return
        ray.shutdown()
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary = None


@contextmanager
def patience() -> Iterator[None]:
    """Wait longer for Ray's own processes than Ray does: on a busy machine they take more than its half a minute.

    It gives up in the middle, then, and leaves behind what it had started.
    """
    get_node = services.get_node

    def get_node_patiently(*arguments: object) -> object:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                return get_node(*arguments)  # type: ignore[no-untyped-call] # Ray has not typed it
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    services.get_node = get_node_patiently
    try:
        yield
    finally:
        services.get_node = get_node


def _stay_on_loopback() -> None:
    """Keep Ray from taking the address of the network card, which it does whatever it is told.

    The environment is for the processes that Ray starts; this one has looked at it when Ray was loaded.
    """
    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False


def _keep_quiet() -> None:
    """Keep Ray from writing into what a program prints: about tokens, and about workers and machines that have died.

    The broker's are started again, and Ray prints their death whatever it is told about logs.
    """
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    ray_worker.print_to_stdstream = _log_from_ray


def _log_from_ray(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
    del ignore_prefix
    for line in data["lines"]:
        _log.info("Ray: %s", line)


def _present_token() -> None:
    """Let this process show Ray's token where there is one: Ray does so by itself only where it starts a cluster.

    Ray has looked at the environment when it was loaded, and has to look again.
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
