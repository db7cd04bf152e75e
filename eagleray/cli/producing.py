"""`eagleray produce`: lines of the standard input become records."""

from __future__ import annotations

import asyncio
import select
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from eagleray.cli.errors import UsageError, line_for, message_of
from eagleray.cli.one_transaction import OneTransaction
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.output import capitalized, counted, note
from eagleray.cli.running import run
from eagleray.cli.signals import stop_signals
from eagleray.cli.transaction_outcome import Outcome, State
from eagleray.client.errors import EaglerayError
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.settings import CompressionType
from eagleray.client.types import RecordMetadata

if TYPE_CHECKING:
    from eagleray.cli.session import Session

app = typer.Typer()

_CHUNK_BYTES: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 4


@app.command(
    epilog=examples(
        "seq 10 | eagleray produce numbers",
        "echo 'customer-7:42.50' | eagleray produce orders --key-separator :",
        "eagleray produce orders --transactional-id loader-1 < orders.txt",
    )
)
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")],
    *,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="What stands between key and value; without it, no keys.")
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option("--transactional-id", help="Write the whole input in one transaction under this name."),
    ] = None,
    compression: Annotated[CompressionType, typer.Option("--compression", help="The codec.")] = "none",
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Write to this partition only.")] = None,
    name: Name = "",
    address: Address = None,
) -> None:
    """Write the lines of the standard input as records.

    With --transactional-id all of them become visible at once when the input ends, or, after Ctrl-C or an error before
    that, none. What it says at its end is what happened.
    """
    if key_separator == "":
        raise UsageError("--key-separator is empty; expected what stands between key and value, for example ':'.")
    lines = Lines(topic, partition, key_separator)

    outcome = None if transactional_id is None else Outcome(transactional_id)

    async def work(session: Session) -> None:
        await session.require_topic(topic, partition)
        settings = {"transactional.id": transactional_id, "compression.type": compression, "linger.ms": 5}
        async with session.cluster.producer(settings) as producer:
            if outcome is None:
                await lines.send_all(producer)
            else:
                await OneTransaction(session, producer, outcome).run(partial(lines.send_all, producer))

    def say_what_is_left() -> None:
        typer.echo(f"error: {_interrupted(lines, None if outcome is None else outcome.given_up())}", err=True)

    try:
        with stop_signals.at_once(say_what_is_left):
            run(Connection(name, address), work)
    except KeyboardInterrupt as interrupt:
        if outcome is None or not outcome.is_committed:
            raise UsageError(_interrupted(lines, outcome)) from interrupt
    except EaglerayError as error:
        line = None if outcome is None else _failed(error, outcome)
        if line is None:
            raise
        raise UsageError(line) from error
    ending = "" if transactional_id is None else f" in one transaction of {transactional_id}, committed"
    note(f"{counted(lines.sent, 'record')} to {topic}{ending}")


def _failed(error: EaglerayError, outcome: Outcome) -> str | None:
    """Say what an error has left behind; None where the error itself says enough."""
    match outcome.state:
        case State.UNKNOWN:
            # Advice to run the command again would write the records twice, if they were committed.
            return f"{message_of(error)} {capitalized(outcome.sentence)}."
        case State.LEFT_OPEN | State.FENCED | State.FENCED_COMMITTING:
            return f"{line_for(error)} {capitalized(outcome.sentence)}."
    return None


def _interrupted(lines: Lines, outcome: Outcome | None) -> str:
    left = lines.left if outcome is None else outcome.sentence
    return f"interrupted after {counted(lines.sent, 'record')}; {left}."


class Lines:
    """The lines of the standard input, on their way to a topic."""

    def __init__(self, topic: str, partition: int | None, key_separator: str | None) -> None:
        self.sent = 0
        self._acknowledged = 0
        self._topic = topic
        self._partition = partition
        self._separator = None if key_separator is None else key_separator.encode()
        self._failure: EaglerayError | None = None

    @property
    def left(self) -> str:
        """Say what is known of the records that were sent outside of a transaction."""
        if self._acknowledged == self.sent:
            return "all of them were written" if self.sent else "nothing was written"
        unknown = counted(self.sent - self._acknowledged, "other")
        return f"{self._acknowledged} of them were written, and the {unknown} may have been"

    async def send_all(self, producer: AsyncProducer) -> None:
        """Send all, and see them acknowledged."""
        async for line in stdin_lines():
            key, value = self._split(line)
            await producer.send(self._topic, value, key=key, partition=self._partition, on_delivery=self._on_delivery)
            self.sent += 1
            self._raise_failure()
        await producer.flush()
        self._raise_failure()

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self._separator is None:
            return None, line
        key, separator, value = line.partition(self._separator)
        if not separator:
            raise UsageError(
                f"line {self.sent + 1} has no {self._separator.decode()!r}; expected KEY, that, and VALUE."
            )
        return key, value

    def _on_delivery(self, _: RecordMetadata | None, error: EaglerayError | None) -> None:
        self._acknowledged += error is None
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


class Source(Protocol):
    """Bytes that can be waited for."""

    def read(self, size: int, /) -> bytes | None:
        """Return what there is, up to so many bytes; None where there is nothing yet."""

    def fileno(self) -> int:
        """What to wait for."""


def stdin_source() -> Source:
    """The standard input without its buffer, whose lock an interpreter that ends meanwhile would stumble over."""
    source: Source = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    return source


def _read_chunk(source: Source) -> bytes:
    """Wait for bytes; none are the end of the input.

    A source that another process has made non-blocking, as terminals and pipes may be, reads None when it is empty.
    """
    while (chunk := source.read(_CHUNK_BYTES)) is None:
        readable = select.poll()
        readable.register(source.fileno(), select.POLLIN)
        readable.poll()
    return bytes(chunk)


async def stdin_lines() -> AsyncIterator[bytes]:
    """Yield the lines of the standard input, without their ends.

    Read by a thread that is not waited for: a terminal may never say anything more.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)
    source = stdin_source()

    def read_all() -> None:
        chunk: bytes | Exception = b"?"
        while chunk and isinstance(chunk, bytes):
            try:
                chunk = _read_chunk(source)
            except Exception as error:  # noqa: BLE001 - the reader of lines is told
                chunk = error
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            room.acquire()

    threading.Thread(target=read_all, name="stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        if isinstance(chunk, Exception):
            raise chunk
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        # Taking records does not wait for anything while there is room; what was taken is to be sent meanwhile.
        await asyncio.sleep(0)
    if rest:
        yield rest
