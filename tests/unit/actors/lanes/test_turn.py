"""The turn of a process: first what is to be done, then what is to be sent."""

import asyncio

from eagleray.actors.lanes.turn import Turn


async def turns_of(begin):
    """Run what `begin` asks of a turn; return what happened, a bar at each round of the loop."""
    happened = []

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: happened.append(type(context["exception"]).__name__))
    begin(Turn(loop), happened)
    while len(happened) < 100:
        before = len(happened)
        await asyncio.sleep(0)
        if len(happened) == before:
            break
        happened.append("|")
    return "".join(happened[:-1])


async def test_acts_come_before_flushes_in_one_round_of_the_loop():
    def begin(turn, happened):
        turn.flush(lambda: happened.append("f"))
        turn.act(lambda: happened.append("a"))
        turn.act(lambda: happened.append("b"))

    assert await turns_of(begin) == "abf"


async def test_act_that_follows_from_another_is_part_of_the_same_turn():
    def begin(turn, happened):
        def answer():
            happened.append("b")
            turn.flush(lambda: happened.append("f"))

        def ask():
            happened.append("a")
            turn.act(answer)

        turn.act(ask)

    assert await turns_of(begin) == "abf"


async def test_acts_that_never_end_leave_the_loop_its_rounds():
    def begin(turn, happened):
        def again():
            happened.append("a")
            turn.act(again)

        turn.act(again)
        turn.flush(lambda: happened.append("f"))

    happened = await turns_of(begin)
    assert happened.startswith("a" * 16 + "f|" + "a" * 16 + "|")


async def test_flush_that_is_asked_for_by_a_flush_comes_in_the_next_turn():
    def begin(turn, happened):
        def flush():
            happened.append("f")
            turn.flush(lambda: happened.append("g"))

        turn.flush(flush)

    assert await turns_of(begin) == "f|g"


async def test_act_that_raises_is_reported_and_keeps_none_of_the_others_from_theirs():
    def begin(turn, happened):
        turn.act(lambda: 1 / 0)
        turn.act(lambda: happened.append("a"))
        turn.flush(lambda: happened.append("f"))

    assert await turns_of(begin) == "ZeroDivisionErroraf"
