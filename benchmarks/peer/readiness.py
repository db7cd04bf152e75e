"""When a broker is ready, and where it may listen."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient


def free_ports(count: int) -> list[int]:
    """Free ports of loopback, all different."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_open(address: str) -> bool:
    """Whether a process accepts connections there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def wait_for_metadata(bootstrap_servers: str, seconds: float, check: Callable[[], None]) -> None:
    """Wait until a client learns of a broker there; `check` raises when waiting has no sense any more."""
    deadline = time.monotonic() + seconds
    # librdkafka waits ever longer between attempts; a plain connection says sooner that it is worth one.
    while not is_open(bootstrap_servers):
        check()
        _give_up_after(deadline, bootstrap_servers)
        time.sleep(0.02)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    while not _has_brokers(admin):
        check()
        _give_up_after(deadline, bootstrap_servers)


def _has_brokers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False


def _give_up_after(deadline: float, bootstrap_servers: str) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"no broker answered at {bootstrap_servers} in time")
