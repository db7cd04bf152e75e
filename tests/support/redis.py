"""A real Redis on loopback, for Ray's head to keep its state in."""

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest

from tests.support.clusters import closed_port, until

SERVERS = ("redis-server", "valkey-server")
STOP_S = 10


def require_redis():
    """Skip where there is no Redis; in continuous integration it has to be there. Returns the program."""
    program = next(filter(None, map(shutil.which, SERVERS)), None)
    if program is None:
        reason = "redis-server is not on the PATH; scripts/ensure_java.py --redis installs it"
        pytest.fail(reason, pytrace=False) if os.environ.get("CI") else pytest.skip(reason)
    return program


@contextmanager
def redis(folder):
    """Run a Redis whose data are in a folder; gives its address."""
    program, port = require_redis(), closed_port()
    os.makedirs(folder)
    options = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--appendonly", "yes")
    with open(os.path.join(folder, "log"), "wb") as log:
        server = subprocess.Popen((program, *options), stdout=log, stderr=log)
    try:
        until(lambda: _answers(port), f"Redis answers at {port}")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(STOP_S)


def _answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
