"""How `eagleray consume` prints a record: by a template in kcat's words or ours, or as JSON."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from typing import Any, Final

import msgspec

from eagleray.cli.errors import UsageError
from eagleray.client.types import ConsumerRecord

Format = Callable[[ConsumerRecord], bytes]
Part = bytes | Format

FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")

_ESCAPE: Final = re.compile(r"\\[ntr0\\]")
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}
_WORD: Final = re.compile(r"%(.?)", re.DOTALL)


def _field(name: str) -> Format:
    return lambda record: _as_bytes(getattr(record, name))


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + _as_bytes(value) for name, value in record.headers)


WORDS: Final[dict[str, Part]] = {
    "%t": _field("topic"),
    "%p": _field("partition"),
    "%o": _field("offset"),
    "%k": _field("key"),
    "%v": _field("value"),
    "%s": _field("value"),
    "%T": _field("timestamp"),
    "%h": _headers,
    "%%": b"%",
}
"""What kcat calls the parts of a record; %v is an easier word for its %s."""

_FIELD_NAMES: Final = ", ".join(f"{{{field}}}" for field in FIELDS)
HELP: Final = f"What to print: text with {', '.join(WORDS)} as in kcat, or with {_FIELD_NAMES}; \\n ends a line."


def by_template(template: str) -> Format:
    """Return what makes bytes of a record; keys and values go through as they are, whatever they hold."""
    text = _ESCAPE.sub(lambda match: _ESCAPES[match[0]], template)
    has_fields = any(f"{{{field}}}" in text for field in FIELDS)
    words = [match[0] for match in _WORD.finditer(text)]
    if has_fields and any(word in WORDS for word in words if word != "%%"):
        raise UsageError(f"--format is {template!r}; expected either {{field}}s or %-words, not both.")
    # A template such as {"key": "%k"} has braces that mean nothing.
    is_ours = has_fields or not words
    parts = _parts_of_fields(text, template) if is_ours else _parts_of_words(text, template)

    def formatted(record: ConsumerRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return formatted


def _parts_of_words(text: str, template: str) -> list[Part]:
    parts: list[Part] = []
    end = 0
    for match in _WORD.finditer(text):
        if match[0] not in WORDS:
            raise UsageError(f"--format is {template!r} and has {match[0]!r}; expected some of {', '.join(WORDS)}.")
        parts += (text[end : match.start()].encode(), WORDS[match[0]])
        end = match.end()
    return [*parts, text[end:].encode()]


def _parts_of_fields(text: str, template: str) -> list[Part]:
    try:
        pieces = [(literal, field) for literal, field, _, _ in string.Formatter().parse(text)]
    except ValueError as error:
        raise UsageError(f"--format is {template!r}: {error}.") from None
    parts: list[Part] = []
    for literal, field in pieces:
        if field is not None and field not in FIELDS:
            expected = f"{', '.join(FIELDS)}, or {', '.join(WORDS)}"
            raise UsageError(f"--format has {{{field}}}; expected some of {expected}.")
        parts.append(literal.encode())
        if field is not None:
            parts.append(_field(field))
    return parts


def _as_bytes(value: bytes | str | int | None) -> bytes:
    if isinstance(value, bytes):
        return value
    return b"" if value is None else str(value).encode()


def as_json(record: ConsumerRecord) -> bytes:
    """One line of JSON."""
    shown: dict[str, Any] = {name: getattr(record, name) for name in FIELDS[:4]}
    shown |= _json_bytes("key", record.key) | _json_bytes("value", record.value)
    shown["headers"] = [{"name": name} | _json_bytes("value", value) for name, value in record.headers]
    return msgspec.json.encode(shown) + b"\n"


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    """Text where it is text, base64 under a name of its own where it is not."""
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}
