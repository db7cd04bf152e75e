"""The lane that commands take: EAGLERAY_LANE chooses it, and a port that cannot be reached is named."""

import pytest

from eagleray.cli import session
from eagleray.cli.errors import UsageError, line_for
from eagleray.client.errors import InvalidConfig, NodeUnreachable, NotConnected

WHY = "node 5 runs, but cannot be reached at 192.0.2.1:9093 from here (refused)."


@pytest.mark.parametrize(("value", "lane"), [(None, "direct"), ("", "direct"), ("direct", "direct"), ("ray", "ray")])
def test_environment_chooses_the_lane(monkeypatch, value, lane):
    if value is None:
        monkeypatch.delenv("EAGLERAY_LANE", raising=False)
    else:
        monkeypatch.setenv("EAGLERAY_LANE", value)
    assert session.chosen_lane() == lane


def test_unknown_lane_is_refused_with_those_there_are(monkeypatch):
    monkeypatch.setenv("EAGLERAY_LANE", "fast")
    with pytest.raises(InvalidConfig, match=r"lane is 'fast', but has to be one of 'direct', 'ray'"):
        session.chosen_lane()


def find_that_raises(monkeypatch, error):
    asked = []

    async def find(name, lane):
        asked.append((name, lane))
        raise error

    monkeypatch.setattr(session, "find", find)
    return asked


async def test_cluster_is_looked_for_by_the_lane_that_was_chosen_and_its_closed_port_is_named(monkeypatch):
    monkeypatch.setenv("EAGLERAY_LANE", "direct")
    asked = find_that_raises(monkeypatch, NodeUnreachable(WHY))
    with pytest.raises(NodeUnreachable) as raised:
        await session._find("orders")
    assert asked == [("orders", "direct")]
    assert line_for(raised.value) == f"{WHY} Open the port to this machine, or take Ray's lane: set EAGLERAY_LANE=ray."


async def test_cluster_whose_nodes_do_not_answer_may_be_about_to_start(monkeypatch):
    find_that_raises(monkeypatch, NotConnected("no node answers."))
    with pytest.raises(UsageError, match="no node of cluster 'orders' answers; Ray may be starting it anew"):
        await session._find("orders")
