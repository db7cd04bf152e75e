"""What a client needs to connect to a cluster: its token, and metadata to start with."""

from __future__ import annotations

import msgspec

from eagleray.broker.metadata.image import MetadataImage


class ClusterCredentials(msgspec.Struct, frozen=True):
    """A cluster's token, and its metadata as of some moment.

    Its holder can take the direct lane to every node. It is a secret: the token lets its holder do everything.
    """

    token: bytes
    image: MetadataImage

    def __repr__(self) -> str:
        return f"ClusterCredentials(of cluster {self.image.cluster_id}, with a token that is secret)"

    def without_topics(self) -> ClusterCredentials:
        """Return the same with the nodes alone, which is small; the next metadata of any node replace it."""
        return ClusterCredentials(self.token, MetadataImage(cluster_id=self.image.cluster_id, nodes=self.image.nodes))

    def encode(self) -> bytes:
        """Return the bytes that `decode_credentials` reads."""
        return msgspec.msgpack.encode(self)


def decode_credentials(data: bytes) -> ClusterCredentials:
    """Read credentials back; raises msgspec.MsgspecError for anything else."""
    return msgspec.msgpack.decode(data, type=ClusterCredentials)
