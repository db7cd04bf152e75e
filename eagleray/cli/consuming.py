"""`eagleray consume`: records of a topic, on the standard output."""

from __future__ import annotations

import base64
import enum
import string
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from eagleray.broker.identities import TopicPartition
from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.output import note
from eagleray.cli.running import run
from eagleray.client.consumer import AsyncConsumer
from eagleray.client.types import ConsumerRecord

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_FOREVER_MS: Final = 24 * 60 * 60 * 1000
_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\0": "\0"}

Format = Callable[[ConsumerRecord], bytes]


class Isolation(enum.StrEnum):
    """Which records are shown."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "eagleray consume orders --max 10",
            "eagleray consume orders --group audit --timeout 5",
            "eagleray consume orders --from end --format '{partition}:{offset} {key}={value}\\n'",
            "eagleray consume orders --isolation read_uncommitted --json",
        )
    )(consume)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")],
    *,
    group: Annotated[
        str | None, typer.Option("--group", help="Go on where this group is, and commit what was printed.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="beginning|end|OFFSET", help="Where to begin; by default where the group is."),
    ] = None,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="Whether to leave out what is open or aborted.")
    ] = Isolation.READ_COMMITTED,
    limit: Annotated[int | None, typer.Option("--max", min=1, help="End after this many records.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="End after this many seconds without a record.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Read this partition only.")] = None,
    template: Annotated[
        str | None, typer.Option("--format", help=f"What to print: text with {', '.join(f'{{{f}}}' for f in _FIELDS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each record as one line of JSON.")] = False,
    name: Name = "default",
    address: Address = None,
) -> None:
    """Print the records of a topic; Ctrl-C ends it.

    Values are written as they are, each with a line's end behind it. With --group it goes on where the group's last
    consumer ended; without, it begins with the first record.
    """
    reading = Reading(
        formatted=_as_json if json else _by_template("{value}\\n" if template is None else template),
        limit=limit,
        timeout_ms=_FOREVER_MS if timeout is None else timeout * 1000,
        commits=group is not None,
    )
    seek = _parse_start(start)

    async def work(session: Session) -> None:
        count = await session.require_topic(topic, partition)
        numbers = range(count) if partition is None else (partition,)
        settings = {"group.id": group, "isolation.level": str(isolation)}
        async with session.cluster.consumer(config=settings) as consumer:
            consumer.assign(TopicPartition(topic, number) for number in numbers)
            seek(consumer)
            await reading.run(consumer)

    with suppress(KeyboardInterrupt):
        run(Connection(name, address), work)
    note(f"{reading.printed} records of {topic}")


def _parse_start(start: str | None) -> Callable[[AsyncConsumer], None]:
    if start is None:
        return lambda _: None
    if start == "beginning":
        return lambda consumer: consumer.seek_to_beginning()
    if start == "end":
        return lambda consumer: consumer.seek_to_end()
    if not start.isdecimal():
        raise Complaint(f"--from is {start!r}; expected beginning, end or an offset such as 42.")

    def seek_all(consumer: AsyncConsumer) -> None:
        for name in consumer.assignment():
            consumer.seek(name, int(start))

    return seek_all


class Reading(msgspec.Struct, kw_only=True):
    """Prints what a consumer reads, until there is enough."""

    formatted: Format
    limit: int | None
    timeout_ms: float
    commits: bool
    printed: int = 0

    async def run(self, consumer: AsyncConsumer) -> None:
        """Read, print, and have the group keep what was printed."""
        while self.limit is None or self.printed < self.limit:
            left = None if self.limit is None else min(self.limit - self.printed, 500)
            records = await consumer.poll(self.timeout_ms, left)
            if not records:
                return
            sys.stdout.buffer.write(b"".join(map(self.formatted, records)))
            sys.stdout.buffer.flush()
            self.printed += len(records)
            if self.commits:
                await consumer.commit()


def _by_template(template: str) -> Format:
    """Return what makes bytes of a record; keys and values go through as they are, whatever they hold."""
    for escape, character in _ESCAPES.items():
        template = template.replace(escape, character)
    try:
        parts = [(text.encode(), field) for text, field, _, _ in string.Formatter().parse(template)]
    except ValueError as error:
        raise Complaint(f"--format is {template!r}: {error}.") from None
    for _, field in parts:
        if field is not None and field not in _FIELDS:
            raise Complaint(f"--format has {{{field}}}; expected some of {', '.join(_FIELDS)}.")

    def formatted(record: ConsumerRecord) -> bytes:
        return b"".join(text + (b"" if field is None else _as_bytes(getattr(record, field))) for text, field in parts)

    return formatted


def _as_bytes(value: bytes | str | int | None) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()


def _as_json(record: ConsumerRecord) -> bytes:
    shown: dict[str, Any] = {name: getattr(record, name) for name in _FIELDS[:4]}
    shown |= _json_bytes("key", record.key) | _json_bytes("value", record.value)
    shown["headers"] = [{"name": name} | _json_bytes("value", value) for name, value in record.headers]
    return msgspec.json.encode(shown) + b"\n"


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    """Text where it is text, base64 under a name of its own where it is not."""
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}
