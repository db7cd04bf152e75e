"""Which answers of nodes say enough of a cluster for a client to connect to it."""

import pytest

from eagleray.actors.cluster.discovery import credentials_from
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.actors.roles.controller import not_controller
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.protocol.errors import ErrorCode

TOKEN = bytes(32)
IMAGE = MetadataImage(cluster_id="c", version=7)


def test_cluster_is_found_by_a_voter_while_no_node_is_the_controller():
    answer = not_controller(GetMetadata(1), IMAGE, NO_NODE)
    assert credentials_from(100, TOKEN, answer) == ClusterCredentials(TOKEN, answer.image)
    assert answer.image.version == 7


def test_cluster_is_found_by_the_controller():
    assert credentials_from(0, TOKEN, MetadataAnswered(1, ErrorCode.NONE, IMAGE)).image == IMAGE


def test_node_that_refuses_says_nothing_of_its_cluster():
    with pytest.raises(Unanswered, match="node 3 answered KAFKA_STORAGE_ERROR"):
        credentials_from(3, TOKEN, MetadataAnswered(1, ErrorCode.KAFKA_STORAGE_ERROR, EMPTY_IMAGE))
