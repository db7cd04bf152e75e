"""Where nodes listen: at the port that was named, at that of their last incarnation, or within a range of ports."""

import re
import socket

import pytest

from eagleray.actors.cluster.machines import CannotStart
from eagleray.actors.cluster.start_cluster import start_cluster
from eagleray.actors.cluster.supervision import separate_layout
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.process.ports import PortRange, ports_to_try, read_listener_ports, read_port
from eagleray.testing import COLOCATED, LocalCluster


def spec(**settings):
    return NodeSpec(
        cluster="c",
        node_id=settings.pop("node_id", 7),
        roles=(),
        data_dir="",
        host="",
        token=b"",
        settings={},
        **settings,
    )


@pytest.mark.parametrize(
    ("last_port", "settings", "expected"),
    [
        (0, {}, (0,)),
        (5000, {}, (5000, 0)),
        (5000, {"port": 9092}, (9092,)),
        (5000, {"port": 9092, "port_range": (1, 9)}, (9092,)),
        (0, {"port_range": (100, 102)}, (101, 102, 100)),
        (100, {"port_range": (100, 102)}, (100, 101, 102, 100)),
        # What it had before the range was given is shut off now.
        (5000, {"port_range": (100, 102)}, (101, 102, 100)),
        (0, {"port_range": (100, 199), "node_id": 30}, (*range(130, 200), *range(100, 130))),
    ],
)
def test_ports_are_tried_in_order(last_port, settings, expected):
    assert ports_to_try(spec(**settings), last_port) == expected


@pytest.mark.parametrize(
    ("data", "port"),
    [
        (b"9092", 9092),
        (b"9092\n", 9092),
        (b"", 0),
        (b"x", 0),
        (b"-1", 0),
        (b"65536", 0),
        (b"\xff", 0),
        pytest.param(b"9" * 5000, 0, id="long"),
    ],
)
def test_file_without_a_port_is_of_no_node_before(data, port):
    assert read_port(data) == port


async def test_node_starts_where_the_file_with_its_port_is_damaged(tmp_path):
    async with LocalCluster(tmp_path, {0: COLOCATED[0]}):
        pass
    (tmp_path / "nodes" / "0.port").write_bytes(b"\0garbage")
    async with LocalCluster(tmp_path, {0: COLOCATED[0]}) as nodes:
        assert nodes.nodes[0].port


@pytest.mark.parametrize("text", ["", "9093", "9093-", "-9192", "a-b", "9192-9093", "0-10", "9093-70000"])
def test_text_that_is_no_range_is_refused(text):
    with pytest.raises(ValueError, match="expected LOW-HIGH"):
        PortRange.parse(text)


def test_a_range_is_read():
    assert PortRange.parse("9093-9192") == PortRange(9093, 9192)
    assert len(PortRange(9093, 9192)) == 100


async def test_too_few_ports_are_refused_before_anything_starts(tmp_path):
    start = start_cluster("c", str(tmp_path), separate_layout(leaders=2), settings={}, port_range=PortRange(9093, 9094))
    with pytest.raises(CannotStart, match=re.escape("the ports 9093-9094 are too few for 7 nodes")):
        await start


async def test_nodes_listen_within_the_range_and_beside_other_listeners(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        low = taken.getsockname()[1]
        if low > 65_000:
            pytest.skip("the system gave a port with no room above it")
        async with LocalCluster(tmp_path, COLOCATED, port_range=(low, low + 9)) as nodes:
            first, second = (node.port for node in nodes.nodes.values())
    assert {first, second} <= set(range(low + 1, low + 10))
    assert first != second


@pytest.mark.parametrize(
    ("data", "ports"),
    [
        (b'{"INNER":9092,"OUTER":9093}', {"INNER": 9092, "OUTER": 9093}),
        (b'{"INNER":9092,"OUTER":65536,"LAST":-1}', {"INNER": 9092}),
        (b'{"INNER":"9092"}', {}),
        (b'{"INNER":9092', {}),
        (b"", {}),
        (b"\xff", {}),
        (b'{"\xee":9092}', {}),
        (b"[" * 100_000, {}),
    ],
)
def test_file_of_ports_of_listeners_that_holds_something_else_is_none(data, ports):
    assert read_listener_ports(data) == ports
