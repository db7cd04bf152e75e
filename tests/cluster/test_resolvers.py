"""Resolvers that are Ray actors decide what killed processes have left, though coordinators and they die as well."""

import os
import signal
from pathlib import Path

import psutil
import pytest
import ray

from eagleray import PreparedTransaction, Resolver
from eagleray.actors.cluster.supervision import namespace_of
from tests.support.clusters import DEADLINE_S, admin_of, check, fresh, kill, nodes_with, until, until_back

pytestmark = pytest.mark.slow

CALLER = "resolver-caller"


def resolving_actor():
    """An application's resolver: made here, so that workers need not have the tests at hand."""

    @ray.remote(num_cpus=0, max_restarts=-1)
    class Orders:
        """Looks into a file for what was paid, and notes there what it was asked."""

        def __init__(self, folder):
            self.folder = folder

        def resolve(self, question):
            import os

            from eagleray import Outcome

            with open(os.path.join(self.folder, "asked"), "a") as asked:
                asked.write(f"{question.prepared} {question.context.decode()} {question.attempt}\n")
            paid = os.path.join(self.folder, f"paid-{question.context.decode()}")
            return Outcome.COMMIT if os.path.exists(paid) else Outcome.UNKNOWN

        def explode(self, question):
            """Give an answer that ends the process which unpickles it, once."""
            import os

            from eagleray import Outcome

            class Bomb:
                def __reduce__(self):
                    return os._exit, (3,)

            with open(os.path.join(self.folder, "exploded"), "a") as exploded:
                exploded.write(f"{question.attempt}\n")
            return Outcome.COMMIT if question.attempt > 1 else Bomb()

        def fail(self, question):
            raise ValueError(f"nobody knows of {question.context!r}")

        def pid(self):
            import os

            return os.getpid()

    return Orders


def killed_between_prepare_and_commit():
    """A Ray task that prepares a transaction and is ended by kill -9 before it commits, or is asked to."""

    @ray.remote(num_cpus=0, max_retries=0)
    def order(cluster_name, topic, resolver, number, folder, *, pays):
        import os
        import signal

        import eagleray

        with (
            eagleray.connect(cluster_name) as cluster,
            cluster.producer(transactional_id=f"{topic}-{number}") as producer,
            producer.transaction(resolver=resolver),
        ):
            producer.send(topic, f"order {number}")
            token = producer.prepare(context=str(number).encode())
            with open(os.path.join(folder, f"prepared-{number}"), "w") as prepared:
                prepared.write(str(token))
            if pays:
                with open(os.path.join(folder, f"paid-{number}"), "w"):
                    pass
            os.kill(os.getpid(), signal.SIGKILL)

    return order


class Shop:
    """A topic of orders, the resolver that is asked about them, and what both have on disk."""

    def __init__(self, cluster, folder, method="resolve"):
        self.cluster, self.folder = cluster, str(folder)
        self.topic = fresh("orders")
        self.name = fresh("resolver")
        self.resolver = Resolver.actor(self.name, method=method, first_after_ms=300, interval_ms=300, attempts=1000)
        self._order = killed_between_prepare_and_commit()
        self.actor = None
        admin_of(cluster).create_topic(self.topic, partitions=2)

    def open(self):
        """Start the resolver, under its name in the namespace of this job."""
        self.actor = resolving_actor().options(name=self.name).remote(self.folder)
        return ray.get(self.actor.pid.remote())

    def close(self):
        if self.actor is not None:
            ray.kill(self.actor)

    def order(self, number=42, *, pays=True):
        """Have a process prepare an order, and die."""
        task = self._order.remote(self.cluster.name, self.topic, self.resolver, number, self.folder, pays=pays)
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(task)
        return PreparedTransaction.parse(self.read(f"prepared-{number}"))

    def pay(self, number=42):
        Path(self.folder, f"paid-{number}").touch()

    def read(self, name):
        path = Path(self.folder, name)
        return path.read_text() if path.exists() else ""

    def attempts(self):
        return [int(line.split()[-1]) for line in self.read("asked").splitlines()]

    def until_asked(self, questions):
        until(lambda: len(self.attempts()) >= questions, f"the resolver is asked {questions} times")

    def until_ended(self, number=42):
        """Wait until the transaction has ended, and return how."""

        def state():
            found = admin_of(self.cluster).describe_transaction(f"{self.topic}-{number}").state
            return found if found.startswith("Complete") else None

        return until(state, f"order {number} has ended")


@pytest.fixture
def shop(separate, tmp_path, request):
    shop = Shop(separate, tmp_path, getattr(request, "param", "resolve"))
    yield shop
    shop.close()


def caller_of(cluster):
    """The actor that calls resolvers, once there is one."""

    def found():
        try:
            return ray.get_actor(CALLER, namespace=namespace_of(cluster.name))
        except ValueError:
            return None

    return until(found, "there is an actor that calls resolvers")


def test_resolver_commits_what_a_killed_process_has_prepared(shop):
    shop.open()
    token = shop.order()

    assert shop.until_ended() == "CompleteCommit"
    check(shop.cluster, shop.topic, [b"order 42"])
    shop.cluster.complete(token, commit=True)
    asked = shop.read("asked").splitlines()
    assert asked[0] == f"{token} 42 1"


def test_coordinator_is_killed_while_the_resolver_is_asked(shop):
    shop.open()
    shop.order(pays=False)
    shop.until_asked(1)
    killed = nodes_with(shop.cluster, "coordinator")
    for node in killed:
        kill(node)
    until_back(shop.cluster, killed)
    before = len(shop.attempts())
    shop.until_asked(before + 1)
    assert sorted(shop.attempts()) == shop.attempts(), "the next coordinator counts on"
    shop.pay()

    assert shop.until_ended() == "CompleteCommit"
    check(shop.cluster, shop.topic, [b"order 42"])


def test_resolver_is_killed_and_started_again(shop):
    pid = shop.open()
    shop.order(pays=False)
    shop.until_asked(1)
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=DEADLINE_S)
    before = len(shop.attempts())
    shop.until_asked(before + 1)
    shop.pay()

    assert shop.until_ended() == "CompleteCommit"
    check(shop.cluster, shop.topic, [b"order 42"])


def test_resolver_that_comes_later_is_found(shop):
    shop.order()
    until(
        lambda: admin_of(shop.cluster).describe_transaction(f"{shop.topic}-42").questions >= 2,
        "the coordinator asks for a resolver that there is not",
    )
    shop.open()

    assert shop.until_ended() == "CompleteCommit"
    check(shop.cluster, shop.topic, [b"order 42"])


@pytest.mark.parametrize("for_good", [False, True])
def test_actor_that_calls_resolvers_is_killed(shop, for_good):
    shop.open()
    shop.order(pays=False)
    shop.until_asked(1)
    ray.kill(caller_of(shop.cluster), no_restart=for_good)
    before = len(shop.attempts())
    shop.until_asked(before + 2)
    shop.pay()

    assert shop.until_ended() == "CompleteCommit"
    check(shop.cluster, shop.topic, [b"order 42"])


@pytest.mark.parametrize("shop", ["explode"], indirect=True)
def test_no_node_unpickles_what_a_resolver_returns(shop):
    """The answer ends the process that reads it: that is the actor which calls resolvers, and never a node."""
    before = {node["node_id"]: node["incarnation"] for node in shop.cluster.nodes()}
    shop.open()
    shop.order()

    assert shop.until_ended() == "CompleteCommit"
    assert shop.read("exploded").split()[0] == "1"
    assert {node["node_id"]: node["incarnation"] for node in shop.cluster.nodes()} == before


@pytest.mark.parametrize("shop", ["fail"], indirect=True)
def test_resolver_that_raises_leaves_the_transaction_prepared_and_a_token_ends_it(shop):
    shop.open()
    token = shop.order()
    described = until(
        lambda: (found := admin_of(shop.cluster).describe_transaction(f"{shop.topic}-42")).questions >= 2 and found,
        "the resolver is asked twice",
    )
    assert (described.state, described.context) == ("Ongoing", b"42")
    assert described.resolver.method == "fail"

    shop.cluster.complete(token, commit=False)

    assert shop.until_ended() == "CompleteAbort"
    check(shop.cluster, shop.topic, [])


def test_successor_waits_for_the_resolver_and_goes_on(shop):
    shop.resolver = Resolver.actor(shop.name)
    shop.open()
    shop.order()

    with shop.cluster.producer(transactional_id=f"{shop.topic}-42") as producer, producer.transaction():
        producer.send(shop.topic, b"next")

    check(shop.cluster, shop.topic, [b"order 42", b"next"])
    assert shop.attempts() == [1]
