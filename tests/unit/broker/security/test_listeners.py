"""The settings of listeners: what they mean, and what is wrong with those that cannot be meant."""

import pytest

from eagleray.actors.common.security_config import SecurityConfig
from eagleray.broker.security.listeners import SecurityProtocol, parse_listeners
from eagleray.broker.settings import InvalidConfig

NAMES = SecurityConfig().listener_security_protocol_map
TWO = "INTERNAL://127.0.0.1:0, client://:9193-9292"
PROTOCOLS = "INTERNAL:PLAINTEXT,CLIENT:SASL_SSL"


def parse(listeners, advertised="", protocols=PROTOCOLS):
    return parse_listeners(listeners, advertised, protocols)


def test_listener_has_its_name_protocol_and_ports():
    internal, client = parse(TWO)
    assert (internal.name, internal.protocol, internal.host) == ("INTERNAL", SecurityProtocol.PLAINTEXT, "127.0.0.1")
    assert (client.name, client.protocol, client.host) == ("CLIENT", SecurityProtocol.SASL_SSL, "")
    assert (internal.ports, client.ports) == ((0, 0), (9193, 9292))


def test_no_listeners_are_the_default():
    assert SecurityConfig().client_listeners == ()


def test_listener_may_be_named_like_its_protocol():
    (listener,) = parse("SSL://[::1]:9093", protocols=NAMES)
    assert (listener.protocol, listener.host, listener.ports) == (SecurityProtocol.SSL, "::1", (9093, 9093))


@pytest.mark.parametrize(
    ("host", "advertised", "told"),
    [
        ("127.0.0.1", "", ("127.0.0.1", 0)),
        ("", "", ("node.example.com", 0)),
        ("0.0.0.0", "", ("node.example.com", 0)),
        ("[::]", "", ("node.example.com", 0)),
        ("0.0.0.0", "SSL://broker.example.com:0", ("broker.example.com", 0)),
        ("", "ssl://broker.example.com:443", ("broker.example.com", 443)),
    ],
)
def test_clients_are_told_an_address_that_they_can_use(host, advertised, told):
    (listener,) = parse(f"SSL://{host}:9093", advertised, NAMES)
    assert (listener.host_for_clients("node.example.com"), listener.advertised_port) == told


@pytest.mark.parametrize(
    ("listeners", "advertised", "protocols", "says"),
    [
        ("9092", "", NAMES, "expected NAME://HOST:PORT"),
        ("SSL://host", "", NAMES, "expected NAME://HOST:PORT"),
        ("SSL://host:70000", "", NAMES, "expected NAME://HOST:PORT"),
        ("SSL://host:20-10", "", NAMES, "expected NAME://HOST:PORT"),
        ("SSL://host:0-10", "", NAMES, "expected NAME://HOST:PORT"),
        ("SSL://a:1,SSL://b:2", "", NAMES, "SSL more than once"),
        ("SSL://a:1,ssl://b:2", "", NAMES, "SSL more than once"),
        ("SSL://:9,PLAINTEXT://:9", "", NAMES, "port 9 for SSL and for PLAINTEXT"),
        ("CLIENT://:1", "", NAMES, "add CLIENT:SASL_SSL"),
        ("SSL://:1", "CLIENT://host:1", NAMES, "advertised.listeners names CLIENT"),
        ("SSL://:1", "SSL://0.0.0.0:1", NAMES, "no one address for SSL"),
        ("SSL://:1", "SSL://host:1-2", NAMES, "no one address for SSL"),
        ("", "SSL://host:1", NAMES, "advertised.listeners names SSL"),
        ("A://:1", "", "A", "expected NAME:PROTOCOL"),
        ("A://:1", "", "A:TLS", "out of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("A://:1", "", "A:SSL,a:SSL", "more than once"),
    ],
)
def test_contradiction_says_what_was_expected(listeners, advertised, protocols, says):
    with pytest.raises(InvalidConfig, match=says):
        parse(listeners, advertised, protocols)
