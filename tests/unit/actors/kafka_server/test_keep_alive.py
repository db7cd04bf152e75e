"""Connections that may be silent for long: the system asks after their peers."""

import socket

import pytest

from eagleray.actors.kafka_server.keep_alive import keep_alive


@pytest.mark.parametrize(("asked_s", "set_s"), [(0, 1), (60, 60), (10**9, 32767)])
def test_the_system_asks_after_a_peer_that_has_been_silent_for_so_long(asked_s, set_s):
    with socket.socket() as connection:
        keep_alive(connection, asked_s)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == set_s


def test_what_is_no_socket_is_left_as_it_is():
    keep_alive(None, 60)
