"""A node as its replicas see it, whose metadata, clock and timer a test moves by hand."""

from types import SimpleNamespace

from eagleray.actors.common.settings import config_of
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.broker.metadata.image import EMPTY_IMAGE
from tests.support.batches import NOW_MS
from tests.support.gathering_peers import GatheringPeers
from tests.support.hand_clock import HandClock
from tests.support.inline_loop import InlineLoop
from tests.support.node_disk import NodeDisk
from tests.support.timers import HandTimer


class HandContext:
    """Counts how often the node is to begin another incarnation. Its controller never answers."""

    def __init__(self, node_id, image=EMPTY_IMAGE, *, incarnation=7, disk=None, machine="", settings=None):
        self.spec = NodeSpec(
            cluster="test",
            node_id=node_id,
            roles=("leader",),
            data_dir="/data",
            host="",
            token=b"",
            settings=settings or {},
            machine=machine,
        )
        self.disk = disk or NodeDisk()
        self.image = image
        self.incarnation = incarnation
        self.is_registered = True
        self.incarnations = 0
        self.controller = SimpleNamespace(ask=lambda *question: None, ask_within=lambda *question: None)
        self.peers = GatheringPeers()
        self.timer = HandTimer()
        self.loop = InlineLoop()
        self.time_ms = NOW_MS
        self.clock = HandClock(NOW_MS, NOW_MS)
        self.disk_guard = DiskGuard(
            self.disk, "/data", node_id, config_of(StorageConfig, self.spec.settings), self.steady_ms
        )

    def now_ms(self):
        return self.time_ms

    def steady_ms(self):
        return self.time_ms

    def start_incarnation(self):
        self.incarnations += 1

    def learn(self, image):
        """Take an image; return the one before."""
        previous, self.image = self.image, image
        return previous
