"""Kafka's limits for what comes from outside, as annotations of the messages that bring it.

A lane reads no message with a value beyond them, and says so to who asks. They are no narrower than what Kafka's own
protocol can say, so that a request which came by that travels on; only what ends in a record with a length of two bytes
has less room. `tests/unit/actors/lanes/test_limits.py` sees that every field of every message has some.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

LONGEST_TEXT_BYTES: Final = 2**15 - 1
"""What a length of two bytes can say: no text of Kafka's protocol, nor of a key of its logs, is longer in UTF-8."""

_BYTES_PER_CHARACTER: Final = 4
_SHOWN: Final = 100

Int8 = Annotated[int, Meta(ge=-(2**7), le=2**7 - 1)]
Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]

IdCount = Annotated[int, Meta(ge=1, le=2**20)]
"""How many producer ids one request may use up: there are enough of them for as long as none takes very many."""

Text = Annotated[str, Meta(max_length=LONGEST_TEXT_BYTES)]
"""A text that is looked up, or shown; code that makes a key of it looks at its bytes."""

RecordText = Annotated[str, Meta(max_length=LONGEST_TEXT_BYTES // _BYTES_PER_CHARACTER)]
"""A text that gets into a record as it is."""


def shown(text: str) -> str:
    """As much of a text from outside as an error message or a line of a log shows."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
