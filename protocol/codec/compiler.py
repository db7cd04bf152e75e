"""Compiles codecs: one function for each message, version and purpose, generated from its layout.

Nothing here is cached, and nothing knows which messages there are; that is for the callers. The functions are
plain Python over builtin types, which mypyc could compile as they are, should another factor of two matter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import error as struct_error
from typing import Any

from eagleray.protocol.codec import primitives
from eagleray.protocol.codec.decoder import FieldReader
from eagleray.protocol.codec.encoder import FieldWriter
from eagleray.protocol.codec.errors import MalformedMessage, UnencodableMessage
from eagleray.protocol.codec.run import Run
from eagleray.protocol.codec.schema import Layout
from eagleray.protocol.codec.source import Source

DECODING_ERRORS = (IndexError, ValueError, struct_error)
ENCODING_ERRORS = (AttributeError, TypeError, ValueError, struct_error)


def compile_decoder(
    layouts: Sequence[Layout],
    *,
    wrapper: type | None = None,
    skipped_bytes: int = 0,
    allows_more: bool = False,
    reads_view: bool = False,
) -> Callable[[Any], Any]:
    """Make a function `decode(data)` that reads layouts one after the other.

    It returns the only Struct, or a wrapper round several, and raises MalformedMessage and nothing else, in
    the name of the last of them. Bytes behind the end are malformed too, unless it `allows_more`. With
    `reads_view` the data has to be a memoryview, without it bytes.
    """
    message, version = layouts[-1].struct.__name__, layouts[-1].version
    kind = "memoryview" if reads_view else "bytes"
    source = Source(f"decoder of {message} version {version} from {kind}", "decode", "data")
    reader = FieldReader(source, reads_view=reads_view)
    reader.cursor.skip(skipped_bytes)
    with _guarded(source, layouts[-1], MalformedMessage):
        built = ", ".join([reader.struct(layout) for layout in layouts])
        reader.finish(allows_more=allows_more)
        source.line(f"return {source.bind('wrapper', wrapper)}({built})" if wrapper else f"return {built}")
    return source.compile()


def compile_encoder(layout: Layout, *, prefix: int | None = None) -> Callable[[Any], bytes]:
    """Make a function `encode(body)` that returns the message, behind a number of two bytes if one is given.

    It raises UnencodableMessage if the values do not fit the version.
    """
    source = Source(f"encoder of {layout.struct.__name__} version {layout.version}", "encode", "body")
    writer = FieldWriter(source, splits_records=False)
    with _guarded(source, layout, UnencodableMessage):
        writer.message(layout, "body")
        head = writer.finish()
        head = head if prefix is None else head.preceded_by("h", str(prefix))
        if writer.has_parts:
            source.line('payload = b"".join(parts)')
            source.line(f"head = {head.packed(source)}")
            source.line("return head + payload")
        else:
            source.line(f"return {head.packed(source)}")
    return source.compile()


def compile_frame_encoder(
    layout: Layout,
    header: Layout,
    header_values: Mapping[str, str],
    parameters: Sequence[str],
    *,
    splits_records: bool = False,
) -> Callable[..., Any]:
    """Make a function `encode(body, ...)` that returns a frame: the size of the rest, the header, the message.

    The values of the header are expressions of the further parameters. With `splits_records` the function
    returns a list of buffers instead, in which large record data stands by itself, not copied.
    """
    purpose = "buffers" if splits_records else "a frame"
    title = f"encoder of {layout.struct.__name__} version {layout.version} to {purpose}"
    source = Source(title, "encode", "body", *parameters)
    writer = FieldWriter(source, splits_records=splits_records)
    with _guarded(source, layout, UnencodableMessage):
        writer.struct(header, header_values)
        writer.message(layout, "body")
        head = writer.finish()
        if not writer.has_parts:
            frame = head.preceded_by("i", str(head.fixed_bytes)).packed(source)
            source.line(f"return [{frame}]" if splits_records else f"return {frame}")
        elif splits_records:
            _return_buffers(source, head)
        else:
            _return_frame(source, head)
    return source.compile()


def _return_frame(source: Source, head: Run) -> None:
    source.line('payload = b"".join(parts)')
    _lengthen(source, head, "payload")
    source.line(f"return {_sized(source, head, 'len(payload)')} + payload")


def _return_buffers(source: Source, head: Run) -> None:
    source.first("buffers = []")
    source.line('buffers.append(b"".join(parts))')
    _lengthen(source, head, "buffers[0]")
    source.line(f"buffers[0] = {_sized(source, head, 'sum(map(len, buffers))')} + buffers[0]")
    source.line("return buffers")


def _lengthen(source: Source, head: Run, payload: str) -> None:
    length = head.compact_length
    if length is not None:
        with source.block(f"if {length} > {primitives.HIGHEST_SHORT_LENGTH}:"):
            encode_compact = source.bind("encode_compact", primitives.encode_compact)
            source.line(f"{payload} = {encode_compact}({length}) + {payload}")


def _sized(source: Source, head: Run, payload_size: str) -> str:
    values = Run(head.fields)
    long = values.preceded_by("i", f"{payload_size} + {head.fixed_bytes}").packed(source)
    if head.compact_length is None:
        return long
    short = head.preceded_by("i", f"{payload_size} + {head.fixed_bytes + 1}").packed_short(source)
    return f"({short} if {head.compact_length} <= {primitives.HIGHEST_SHORT_LENGTH} else {long})"


@contextmanager
def _guarded(source: Source, layout: Layout, error_type: type[MalformedMessage | UnencodableMessage]) -> Iterator[None]:
    is_decoder = error_type is MalformedMessage
    errors = source.bind("errors", DECODING_ERRORS if is_decoder else ENCODING_ERRORS)
    reason = f"{source.bind('explain', primitives.explain)}(error)" if is_decoder else "str(error)"
    with source.block("try:"):
        yield
    with source.block(f"except {errors} as error:"):
        raised = source.bind(error_type.__name__, error_type)
        source.line(f"raise {raised}({layout.struct.__name__!r}, {layout.version}, {reason}) from error")
