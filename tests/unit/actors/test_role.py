"""A role gathers what happens in a turn, and ends the process when it does not know better."""

import asyncio
from types import SimpleNamespace

from eagleray.actors.lanes.turn import Turn
from eagleray.actors.roles.role import Role
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.transactions.producer_ids import AllocateBlock


class Recorder(Role):
    process_role = ProcessRole.ALLOCATOR

    def __init__(self, context):
        super().__init__(context)
        self.handled = []

    def handle(self, events):
        if any(event.request_id < 0 for event in events):
            raise ZeroDivisionError
        self.handled.append([event.request_id for event in events])


def recorder():
    failures = []
    loop = asyncio.get_running_loop()
    context = SimpleNamespace(loop=loop, turn=Turn(loop), fail=failures.append)
    return Recorder(context), failures


async def rounds(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_events_between_two_turns_are_dealt_with_together_and_in_order():
    role, _ = recorder()
    role.post(AllocateBlock(1))
    role.post(AllocateBlock(2))
    assert role.handled == []
    await rounds()
    role.post(AllocateBlock(3))
    await rounds()
    assert role.handled == [[1, 2], [3]]
    assert (role.turns, role.events) == (2, 3)


async def test_an_error_that_it_does_not_expect_ends_the_process():
    role, failures = recorder()
    role.post(AllocateBlock(-1))
    await rounds()
    assert [type(error) for error in failures] == [ZeroDivisionError]
