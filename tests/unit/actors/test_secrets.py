"""What is secret is not shown: not in what Python prints of a struct, and not in what tools print of a file."""

import msgspec
import pytest

from eagleray.actors.cluster.supervision import ClusterSpec
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.lanes.peers import Lane
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.controller.credential_events import AlterCredentials, CredentialChange
from eagleray.broker.metadata.changes import CredentialChanged
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.security.sasl import VerifyPassword
from eagleray.broker.security.scram import ScramCredential, ScramMechanism
from eagleray.offline.dump_log import as_json
from eagleray.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

SECRET = b"looking-glass"
CREDENTIAL = ScramCredential(SECRET, SECRET, SECRET, 4096)
IMAGE = EMPTY_IMAGE.apply([CredentialChanged("ada", 1, CREDENTIAL)])
NODE = NodeSpec(
    cluster="c", node_id=0, roles=(), data_dir="/data", host="host", token=SECRET, settings={"a": "b"}, lane=Lane.DIRECT
)

HOLDING = [
    NODE,
    ClusterCredentials(SECRET, IMAGE),
    ClusterSpec(
        name="c", data_dir="/data", host="host", bind_host="", token=SECRET, settings={}, machines=(), controllers=(0,)
    ),
    IMAGE,
    AlterCredentials(1, (CredentialChange("ada", 1, CREDENTIAL),)),
    VerifyPassword("ada", SECRET.decode(), ((ScramMechanism.SHA_256, CREDENTIAL),)),
    SaslAuthenticateRequest(b"\0ada\0" + SECRET),
    AlterUserScramCredentialsRequest((), (ScramCredentialUpsertion("ada", 1, 4096, SECRET, SECRET),)),
]


@pytest.mark.parametrize("holding", HOLDING, ids=lambda each: type(each).__name__)
def test_secret_is_not_in_a_repr(holding):
    assert SECRET.decode() not in repr(holding)
    assert SECRET.decode() not in f"{holding}"


@pytest.mark.parametrize("holding", [CredentialChanged("ada", 1, CREDENTIAL), IMAGE], ids=["change", "image"])
def test_secret_is_not_in_a_dump(holding):
    shown = as_json(holding)
    assert '"ada"' in shown
    assert SECRET.hex() not in shown
    assert SECRET in msgspec.msgpack.encode(holding), "it is in the file"
