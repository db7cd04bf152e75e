"""Requests at which the controller fails: they are refused, nothing has changed, and others are served."""

from itertools import count

import pytest

from eagleray.broker.controller.events import (
    AlterTopicConfigs,
    CreateTopics,
    DeleteTopics,
    DescribeConfigs,
    GetMetadata,
    GrowTopic,
    NewTopic,
    ReserveProducerIds,
    Respond,
)
from eagleray.broker.controller.replica_events import ElectLeaders, ListReassignments, PartitionMove, ReassignPartitions
from eagleray.broker.identities import TopicPartition
from eagleray.broker.runtime.failures import RequestFailed
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import planned_driver
from tests.support.failing_lines import FailingLine, Injected

DECIDES = ("/broker/controller/", "/broker/metadata/")
CATCHES = ("controller/controller.py", "controller/events.py", "metadata/image.py")
ORDERS = TopicPartition("orders", 0)
ASKED = [
    CreateTopics(7, (NewTopic("invoices", 2),)),
    DeleteTopics(7, ("orders",)),
    GrowTopic(7, "orders", 5),
    AlterTopicConfigs(7, "orders", {"retention.ms": "1000"}),
    ReassignPartitions(7, (PartitionMove(ORDERS, (1,)),)),
    ElectLeaders(7, (ORDERS,)),
    ReserveProducerIds(7, 1000),
    ListReassignments(7),
    GetMetadata(7),
    DescribeConfigs(7, "orders"),
]


def with_a_topic():
    driver = planned_driver()
    assert driver.create("orders", 3).error_code is ErrorCode.NONE
    return driver


def end_with_the_decision(controller, failing):
    carry = controller._carry

    def carried(*decided):
        failing.is_over = True
        carry(*decided)

    controller._carry = carried


@pytest.mark.parametrize("request_", ASKED, ids=lambda request: type(request).__name__)
def test_request_that_fails_changes_no_metadata(request_):
    for line in count(1):
        driver = with_a_topic()
        before = driver.controller.latest_image
        failing = FailingLine(DECIDES, line, CATCHES)
        end_with_the_decision(driver.controller, failing)
        effects = failing.run(lambda driver=driver: driver.controller.handle_all((request_,), driver.now_ms))
        if not failing.has_fired:
            assert line > 1, "nothing was tried"
            return
        failed, respond = effects
        assert isinstance(failed, RequestFailed)
        assert isinstance(failed.error, Injected)
        assert isinstance(respond, Respond)
        assert "UNKNOWN_SERVER_ERROR" in repr(respond.answer)
        assert driver.controller.latest_image is before
        assert driver.create("next", 1).error_code is ErrorCode.NONE
