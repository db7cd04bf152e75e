"""A node keeps its last image: the first at once, the others now and then, and the last when it is closed."""

import pytest

from eagleray.actors.process.image_keeper import INTERVAL_MS, ImageKeeper
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.kept_image import read_kept_image
from tests.support.faults import Fault, Operation, Outcome
from tests.support.hand_context import HandContext

DATA, NODE = "/data", 3


@pytest.fixture
def context():
    context = HandContext(NODE)
    context.disk.make_directories(f"{DATA}/nodes")
    return context


def keeper_of(context):
    sequence = getattr(read_kept_image(context.disk, DATA, NODE).newest, "sequence", 0)
    return ImageKeeper(
        context.disk,
        DATA,
        NODE,
        sequence=sequence,
        loop=context.loop,
        timer=context.timer,
        steady_ms=context.steady_ms,
    )


def kept_version(context):
    return read_kept_image(context.disk, DATA, NODE).newest.image.version


def image(version):
    return MetadataImage(version=version, cluster_id="ours")


def pass_time(context):
    context.time_ms += INTERVAL_MS
    due = [act for act, due_ms in context.timer.due_ms.items() if due_ms <= context.time_ms]
    context.timer.due_ms.clear()
    for act in due:
        act()


def test_first_image_is_kept_before_anything_is_noted(context):
    keeper_of(context).take(image(1))
    assert kept_version(context) == 1


def test_later_images_are_written_once_in_an_interval(context):
    keeper = keeper_of(context)
    for version in range(1, 100):
        keeper.take(image(version))
    assert kept_version(context) == 1
    pass_time(context)
    assert kept_version(context) == 99
    assert read_kept_image(context.disk, DATA, NODE).newest.sequence == 2


def test_image_survives_a_loss_of_power_and_a_restart_goes_on_with_the_next_generation(context):
    keeper_of(context).take(image(1))
    context.disk.lose_power(lambda: False)
    keeper = keeper_of(context)
    keeper.take(image(2))
    pass_time(context)
    assert kept_version(context) == 2
    assert read_kept_image(context.disk, DATA, NODE).newest.sequence == 2


def test_last_image_is_kept_when_the_node_is_closed(context):
    keeper = keeper_of(context)
    keeper.take(image(1))
    keeper.take(image(2))
    keeper.close()
    assert kept_version(context) == 2
    keeper.close()
    assert read_kept_image(context.disk, DATA, NODE).newest.sequence == 2


def test_image_that_could_not_be_written_is_written_after_the_next_interval(context, caplog):
    keeper = keeper_of(context)
    keeper.take(image(1))
    keeper.take(image(2))
    with context.disk.injected(Fault(Outcome.FAIL, on=frozenset({Operation.WRITE}))):
        pass_time(context)
    assert kept_version(context) == 1
    assert "could not be kept" in caplog.text
    pass_time(context)
    assert kept_version(context) == 2
