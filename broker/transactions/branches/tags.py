"""What a tag says about the order of transactions.

A tag that ends in `#` and a number belongs to a series, and the numbers of a series are committed in their order: who
has committed `orders-query#17` has nothing left to do for `orders-query#16`. Any other tag stands alone.
"""

from __future__ import annotations

from typing import Final

SEPARATOR: Final = "#"
_MOST_DIGITS: Final = 19
"""Of what eight bytes hold, as the batches of a query are counted; a longer number is a part of the name."""


def tag_in_series(series: str, number: int) -> str:
    """Return the tag of one transaction of a series."""
    return f"{series}{SEPARATOR}{number}"


def is_settled_by(tag: str, committed_tag: str | None) -> bool:
    """Whether nothing is left to do for a tag, once this one is committed."""
    return committed_tag is not None and (tag == committed_tag or is_before(tag, committed_tag))


def steps_behind(tag: str, committed_tag: str | None) -> int | None:
    """How far a tag lies behind one that is committed; None where they are not of one series."""
    if committed_tag is None:
        return None
    (series, number), (committed_series, committed_number) = _parse(tag), _parse(committed_tag)
    if number is None or committed_number is None or series != committed_series:
        return None
    return committed_number - number


def is_before(tag: str, other: str) -> bool:
    """Whether a tag is an earlier one of the same series."""
    steps = steps_behind(tag, other)
    return steps is not None and steps > 0


def _parse(tag: str) -> tuple[str, int | None]:
    series, separator, number = tag.rpartition(SEPARATOR)
    is_in_series = bool(separator) and number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
    return (series, int(number)) if is_in_series else (tag, None)
