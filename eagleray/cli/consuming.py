"""`eagleray consume`: records of a topic, on the standard output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from eagleray.broker.identities import TopicPartition
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.output import counted, note
from eagleray.cli.printing import Printer, printer_for
from eagleray.cli.record_format import HELP, Format, as_json, by_template
from eagleray.cli.running import run
from eagleray.cli.signals import Interrupted
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.errors import EaglerayError
from eagleray.client.settings import IsolationLevel
from eagleray.client.types import ConsumerRecord

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer()

_FOREVER_MS: Final = 24 * 60 * 60 * 1000
_COMMIT_S: Final = 10.0


@app.command(
    epilog=examples(
        "eagleray consume orders --max 10",
        "eagleray consume orders --group audit --timeout 5",
        "eagleray consume orders --from end --format '%p:%o %k=%v\\n'",
        "eagleray consume orders --isolation read_uncommitted --json",
    )
)
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")],
    *,
    group: Annotated[
        str | None, typer.Option("--group", help="Share the topic with this group, and commit what was printed.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="beginning|end|OFFSET", help="Where to begin; by default where the group is."),
    ] = None,
    isolation: Annotated[
        IsolationLevel, typer.Option("--isolation", help="Whether to leave out what is open or aborted.")
    ] = "read_committed",
    limit: Annotated[int | None, typer.Option("--max", min=1, help="End after this many records.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="End after this many seconds without a record.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Read this partition only.")] = None,
    template: Annotated[str | None, typer.Option("--format", help=HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each record as one line of JSON.")] = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Print the records of a topic; Ctrl-C ends it.

    Values are written as they are, each with a line's end behind it. With --group it goes on where the group's last
    consumer ended, and shares the partitions with the group's other consumers, unless --from or --partition says what
    to read; it commits what was printed and no more: behind `| head -3`, three records. Without, it begins with the
    first record.
    """
    formatted = as_json if json else by_template("{value}\\n" if template is None else template)
    begin = _parse_start(start)
    reading = Reading(
        formatted=formatted,
        limit=limit,
        timeout_ms=_FOREVER_MS if timeout is None else timeout * 1000,
        commits=group is not None,
        printer=printer_for(is_exact=group is not None),
    )

    async def work(session: Session) -> None:
        count = await session.require_topic(topic, partition)
        numbers = range(count) if partition is None else (partition,)
        settings = {"group.id": group, "isolation.level": isolation}
        if isinstance(begin, int):
            settings["auto.offset.reset"] = "none"
        async with session.cluster.consumer(config=settings) as consumer:
            if group is not None and start is None and partition is None:
                await consumer.subscribe(topic)
            else:
                consumer.assign(TopicPartition(topic, number) for number in numbers)
                await _seek(consumer, begin)
            await reading.run(consumer)

    try:
        run(Connection(name, address), work)
    except Interrupted:
        _say_how_many(reading, topic)
        raise
    _say_how_many(reading, topic)


def _say_how_many(reading: Reading, topic: str) -> None:
    note(f"{counted(reading.printed, 'record')} of {topic}")


def _parse_start(start: str | None) -> str | int | None:
    if start in (None, "beginning", "end"):
        return start
    if not start.isdecimal():
        raise UsageError(f"--from is {start!r}; expected beginning, end or an offset such as 42.")
    return int(start)


async def _seek(consumer: AsyncConsumer, begin: str | int | None) -> None:
    if begin == "beginning":
        consumer.seek_to_beginning()
    elif begin == "end":
        consumer.seek_to_end()
    elif isinstance(begin, int):
        for partition in consumer.assignment():
            consumer.seek(partition, begin)
        await _require_offset(consumer, begin)


async def _require_offset(consumer: AsyncConsumer, offset: int) -> None:
    """Refuse an offset that some partition does not have; its end is one, where the next record will be."""
    partitions = sorted(consumer.assignment())
    starts, ends = await consumer.beginning_offsets(*partitions), await consumer.end_offsets(*partitions)
    without = [each for each in partitions if not starts[each] <= offset <= ends[each]]
    if without:
        have = ", ".join(f"{each} has {starts[each]} to {ends[each]}" for each in without)
        advice = "choose one of these, beginning or end" + ("" if len(partitions) == 1 else ", or one --partition")
        raise UsageError(f"--from is {offset}, which is out of range: {have}; {advice}.")


class Reading(msgspec.Struct, kw_only=True):
    """Prints what a consumer reads, until there is enough."""

    formatted: Format
    limit: int | None
    timeout_ms: float
    commits: bool
    printer: Printer

    @property
    def printed(self) -> int:
        """How many records have got to the standard output."""
        return self.printer.printed

    async def run(self, consumer: AsyncConsumer) -> None:
        """Read, print, and have the group keep what was printed, also of what was cut short."""
        while self.limit is None or self.printed < self.limit:
            left = None if self.limit is None else min(self.limit - self.printed, 500)
            records = await consumer.poll(self.timeout_ms, left)
            if not records:
                return
            before = self.printed
            try:
                await self.printer.write([self.formatted(record) for record in records])
                # Behind the last record there may be markers, which the positions are behind as well.
                await self._commit(consumer, consumer.positions())
            except (OSError, asyncio.CancelledError):
                await self._commit_last(consumer, records[: self.printed - before])
                raise

    async def _commit(self, consumer: AsyncConsumer, offsets: dict[TopicPartition, int]) -> None:
        if self.commits and offsets:
            await consumer.commit(offsets)

    async def _commit_last(self, consumer: AsyncConsumer, printed: Sequence[ConsumerRecord]) -> None:
        try:
            async with asyncio.timeout(_COMMIT_S):
                await self._commit(consumer, offsets_behind(printed))
        except (EaglerayError, TimeoutError) as error:
            note(f"the last {counted(len(printed), 'record')} may be read again: they were not committed ({error})")


def offsets_behind(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, int]:
    """The offset behind the last record of each partition."""
    return {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
