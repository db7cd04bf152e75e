"""A Ray of this process for tests, with clusters on it; whatever it leaves behind fails the run."""

import os
import shutil
import tempfile
from contextlib import contextmanager

import psutil
import pytest
import ray

import eagleray
from eagleray.actors.cluster.embedded_ray import EmbeddedRay
from tests.support.clusters import SETTINGS, fresh, is_open, until_running

GONE_SECONDS = 90


class RayHere:
    """A Ray of this process, with clusters on it; knows what must be gone when it is gone."""

    def __init__(self, folder):
        self._folder = folder
        self._clusters = {}
        self._ports = set()
        self._ray = EmbeddedRay()
        self.address = ray.get_runtime_context().gcs_address
        self._note_port(*self.address.split(":"))

    def _note_port(self, host, port):
        self._ports.add((host, int(port)))

    def start(self, layout, **options):
        """Start a cluster that the test closes; by default with a name and a data directory of its own."""
        name = options.pop("name", None) or fresh(layout)
        data_dir = options.pop("data_dir", None) or os.path.join(self._folder, name)
        cluster = eagleray.start(
            data_dir, name=name, layout=layout, config={**SETTINGS, **options.pop("config", {})}, **options
        )
        self.note(cluster)
        return cluster

    def note(self, cluster):
        """Remember where the nodes of a cluster listen."""
        for node in cluster.nodes():
            if node["registered"]:
                self._note_port(node["host"], node["port"])

    def shared(self, layout):
        """The cluster of a layout that tests share, with all of its nodes running."""
        if layout not in self._clusters:
            self._clusters[layout] = self.start(layout)
        cluster = self._clusters[layout]
        until_running(cluster)
        return cluster

    def close(self):
        """Stop everything; return the addresses at which somebody still listens."""
        for cluster in self._clusters.values():
            self.note(cluster)
            cluster.close()
        self._ray.close()
        return [address for address in self._ports if is_open(*address)]


@contextmanager
def isolated_ray(folder):
    """Ray; fails where it leaves a process, a file in the directory for temporary ones, or an open port."""
    processes_before = set(psutil.Process().children(recursive=True))
    # Sockets have short names, and Ray puts them deep into a directory for temporary files.
    temporary = tempfile.mkdtemp(prefix="er-")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tempfile, "tempdir", temporary)
            patch.setenv("TMPDIR", temporary)
            patch.delenv("RAY_ADDRESS", raising=False)
            here = RayHere(folder)
            yield here
            listening = here.close()
        left_over = os.listdir(temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    processes = set(psutil.Process().children(recursive=True)) - processes_before
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert (listening, left_over, alive) == ([], [], []), f"left behind: {listening}, {left_over}, {alive}"
