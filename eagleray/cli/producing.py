"""`eagleray produce`: lines of the standard input become records."""

from __future__ import annotations

import asyncio
import enum
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Address, Connection, Name, examples
from eagleray.cli.output import note
from eagleray.cli.running import run
from eagleray.client.errors import EaglerayError
from eagleray.client.producer import AsyncProducer
from eagleray.client.types import RecordMetadata

if TYPE_CHECKING:
    from eagleray.cli.session import Session

_CHUNK_BYTES: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 4


class Compression(enum.StrEnum):
    """What batches may be compressed with."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def add_to(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "seq 10 | eagleray produce numbers",
            "echo 'customer-7:42.50' | eagleray produce orders --key-separator :",
            "eagleray produce orders --transactional-id loader-1 < orders.txt",
        )
    )(produce)


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
    compression: Annotated[Compression, typer.Option("--compression", help="The codec.")] = Compression.NONE,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Write to this partition only.")] = None,
    name: Name = "default",
    address: Address = None,
) -> None:
    """Write the lines of the standard input as records.

    With --transactional-id all of them become visible at once when the input ends, or, after Ctrl-C or an error, none.
    """
    if key_separator == "":
        raise Complaint("--key-separator is empty; expected what stands between key and value, for example ':'.")
    lines = Lines(topic, partition, key_separator)

    async def work(session: Session) -> None:
        await session.require_topic(topic, partition)
        settings = {"transactional.id": transactional_id, "compression.type": str(compression), "linger.ms": 5}
        async with session.cluster.producer(settings) as producer:
            await (lines.send_all(producer) if transactional_id is None else lines.send_in_transaction(producer))

    try:
        run(Connection(name, address), work)
    except KeyboardInterrupt:
        left = "the records before may have been written" if transactional_id is None else "nothing was committed"
        raise Complaint(f"interrupted after {lines.sent} records; {left}.") from None
    outcome = "" if transactional_id is None else f" in one transaction of {transactional_id}, committed"
    note(f"{lines.sent} records to {topic}{outcome}")


class Lines:
    """The lines of the standard input, on their way to a topic."""

    def __init__(self, topic: str, partition: int | None, key_separator: str | None) -> None:
        self.sent = 0
        self._topic = topic
        self._partition = partition
        self._separator = None if key_separator is None else key_separator.encode()
        self._failure: EaglerayError | None = None

    async def send_in_transaction(self, producer: AsyncProducer) -> None:
        """Send all, then commit; whatever goes wrong aborts."""
        async with producer.transaction():
            await self.send_all(producer)

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
            raise Complaint(f"line {self.sent + 1} has no {self._separator.decode()!r}; expected KEY, that, and VALUE.")
        return key, value

    def _on_delivery(self, _: RecordMetadata | None, error: EaglerayError | None) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def stdin_source() -> Any:  # noqa: ANN401 - whatever can be read
    """The standard input without its buffer, whose lock an interpreter that ends meanwhile would stumble over."""
    return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)


async def stdin_lines() -> AsyncIterator[bytes]:
    """Yield the lines of the standard input, without their ends.

    Read by a thread that nobody waits for: a terminal may never say anything more.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)
    source = stdin_source()

    def read_all() -> None:
        chunk: bytes | Exception = b"?"
        while chunk and isinstance(chunk, bytes):
            try:
                chunk = source.read(_CHUNK_BYTES) or b""
            except Exception as error:  # noqa: BLE001 - whoever waits for lines is told
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
