"""A client in a process of its own, which does one thing, says so, and waits to be killed.

    python -m tests.support.cluster_process WORK '{"name": ..., "address": ...}'

It says what it has done in lines of its output.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time

import psutil

import eagleray
from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import ProducerFenced
from eagleray.client.runtime import ClientRuntime

DEADLINE_S = 300

# The test's side


class ClientProcess:
    """A client process, seen from the test."""

    def __init__(self, work, **options):
        command = [sys.executable, "-m", "tests.support.cluster_process", work, json.dumps(options)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def until_said(self, expected):
        """Wait until it says this; its process ends by itself if it cannot."""
        assert select.select([self._process.stdout], [], [], DEADLINE_S)[0], f"the client has not said {expected!r}"
        said = self._process.stdout.readline().strip()
        assert said == expected, f"the client said {said!r}, expected {expected!r}"

    def until_stopped(self):
        """Wait until it has stopped itself: a signal to go on that comes before would be lost."""
        deadline = time.monotonic() + DEADLINE_S
        while psutil.Process(self._process.pid).status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline, "the client has not stopped itself"
            time.sleep(0.01)

    def send_signal(self, number):
        self._process.send_signal(number)

    def wait(self, seconds=DEADLINE_S):
        return self._process.wait(seconds)

    def kill(self):
        self._process.kill()
        assert self.wait() == -signal.SIGKILL

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def by_address(cluster):
    """What a client without Ray has to know of a cluster."""
    (node,) = [node for node in cluster.nodes() if node["node_id"] == 0]
    token = cluster._peers._token.hex()
    return {"name": cluster.name, "host": node["host"], "port": node["port"], "token": token}


# The client's side


def say(words):
    print(words, flush=True)


def wait_to_be_killed():
    time.sleep(600)
    sys.exit("nobody has killed this process")


def leave_open(options):
    """Write in a transaction through Ray, and never end it."""
    cluster = eagleray.connect(options["name"], address=options["address"])
    producer = cluster.producer(transactional_id=options["transactional_id"])
    producer.begin()
    for number in range(options["records"]):
        producer.send(options["topic"], b"crashed %d" % number)
    producer.flush()
    say("open")
    wait_to_be_killed()


async def without_ray(options):
    """A client by the direct lane alone: it starts within a moment."""
    peers = Peers(token=bytes.fromhex(options["token"]), lane=Lane.DIRECT)
    peers.learn({0: NodeRegistration(0, 0, options["host"], options["port"], ())})
    image = (await peers.call(0, GetMetadata)).image
    return AsyncCluster(ClientRuntime(peers, image, cluster=options["name"]))


async def be_a_zombie(options):
    """Write in a transaction, sleep through the takeover by a successor, and try to commit."""
    cluster = await without_ray(options)
    producer = cluster.producer(transactional_id=options["transactional_id"])
    await producer.init()
    producer.begin()
    await producer.send_and_wait(options["topic"], b"zombie")
    say("open")
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        await producer.send_and_wait(options["topic"], b"zombie again")
        await producer.commit()
    except ProducerFenced:
        say("fenced")
    else:
        say("committed")


async def drive(options):
    """Drive a transaction with branches, and end before, during or after its commit."""
    cluster = await without_ray(options)
    loop = asyncio.get_running_loop()

    def end():
        os.kill(os.getpid(), signal.SIGKILL)

    transaction = await cluster.begin(options["transactional_id"], tag=options["tag"])
    if transaction.already_committed:
        say("already committed")
        return
    sealed = []
    for branch in range(options["branches"]):
        writer = await cluster.join(transaction.branch())
        await writer.send(options["topic"], b"%d" % branch, partition=branch % 2)
        sealed.append(await writer.seal())
    if options["ends"] == "before":
        end()
    if options["ends"] == "during":
        commit = loop.create_task(transaction.commit(sealed))
        # Once round the loop puts the question into the socket.
        await asyncio.sleep(0)
        loop.call_later(options["delay_s"], end)
        await commit
        await asyncio.sleep(60)
    await transaction.commit(sealed)
    if options["ends"] == "after":
        end()
    say("committed")


WORK = {"leave_open": leave_open}
ASYNC_WORK = {"be_a_zombie": be_a_zombie, "drive": drive}


def main():
    work, options = sys.argv[1], json.loads(sys.argv[2])
    if work in WORK:
        WORK[work](options)
    else:
        asyncio.run(ASYNC_WORK[work](options))


if __name__ == "__main__":
    main()
