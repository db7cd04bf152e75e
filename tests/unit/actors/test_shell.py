"""A shell gathers what happens in a turn, and ends the process when it does not know better."""

import asyncio
from types import SimpleNamespace

from eagleray.actors.lanes.turn import Turn
from eagleray.actors.shell import Shell
from eagleray.broker.controller.nodes import Role
from eagleray.broker.transactions.producer_ids import AllocateBlock


class Recorder(Shell):
    role = Role.ALLOCATOR

    def __init__(self, host):
        super().__init__(host)
        self.handled = []

    def handle(self, events):
        if any(event.request_id < 0 for event in events):
            raise ZeroDivisionError
        self.handled.append([event.request_id for event in events])


def recorder():
    failures = []
    loop = asyncio.get_running_loop()
    host = SimpleNamespace(loop=loop, turn=Turn(loop), fail=failures.append)
    return Recorder(host), failures


async def rounds(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_comes_between_two_turns_is_dealt_with_together_and_in_order():
    async def scenario():
        shell, _ = recorder()
        shell.post(AllocateBlock(1))
        shell.post(AllocateBlock(2))
        assert shell.handled == []
        await rounds()
        shell.post(AllocateBlock(3))
        await rounds()
        assert shell.handled == [[1, 2], [3]]
        assert (shell.turns, shell.events) == (2, 3)

    asyncio.run(scenario())


def test_an_error_that_it_does_not_expect_ends_the_process():
    async def scenario():
        shell, failures = recorder()
        shell.post(AllocateBlock(-1))
        await rounds()
        assert [type(error) for error in failures] == [ZeroDivisionError]

    asyncio.run(scenario())
