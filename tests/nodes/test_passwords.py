"""Passwords that programs with handles set, for clients that log in with them."""

import pytest

from eagleray.broker.security.scram import ScramMechanism, is_password_of
from eagleray.client.errors import EaglerayError, InvalidArgument
from eagleray.testing import LocalCluster

ONE_NODE = {0: ("controller", "allocator", "coordinator", "markers", "groups", "leader")}
SETTINGS = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1", "max.scram.users": "1"}


async def test_password_is_set_and_removed(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE, SETTINGS) as nodes:
        cluster = nodes.connect()
        admin = cluster.admin
        await admin.set_password("ada", "first")
        await admin.set_password("ada", "second")
        await admin.set_password("ada", "other", mechanism="SCRAM-SHA-256", iterations=8192)
        of_ada = nodes.nodes[0].image.credentials["ada"]
        assert is_password_of(ScramMechanism.SHA_512, of_ada[2], "second")
        assert (of_ada[1].iterations, of_ada[2].iterations) == (8192, 4096)
        with pytest.raises(EaglerayError, match=r"max\.scram\.users"):
            await admin.set_password("ben", "secret")
        await admin.remove_password("ada")
        with pytest.raises(EaglerayError, match="the user has no credential for SCRAM-SHA-512"):
            await admin.remove_password("ada")
        await cluster.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"user": ""}, "user is ''; expected a name"),
        ({"password": ""}, "expected a text that is not empty"),
        ({"password": b"secret"}, "password is <class 'bytes'>"),
        ({"mechanism": "PLAIN"}, "expected SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({"iterations": 1}, "iterations"),
    ],
)
async def test_argument_that_cannot_be_meant_is_refused(tmp_path, arguments, says):
    async with LocalCluster(tmp_path, ONE_NODE, SETTINGS) as nodes:
        cluster = nodes.connect()
        given = {"user": "ada", "password": "secret"} | arguments
        with pytest.raises(InvalidArgument, match=says):
            await cluster.admin.set_password(given.pop("user"), given.pop("password"), **given)
        await cluster.close()
