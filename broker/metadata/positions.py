"""How much of the metadata a node knows, and of which cluster: metadata never go backwards.

A version counts the changes that have led to an image. A controller that has lost a part of its log counts on from
there, so that a version alone does not tell its images from those that it has forgotten. Its term does.
"""

from __future__ import annotations

from typing import Final

from eagleray.broker.messages import Message

TERMS_KEPT: Final = 100
"""How many controllers an image remembers; whether it knows an older position it cannot tell, and assumes it."""


class MetadataPosition(Message, frozen=True):
    """The position of an image in the metadata of its cluster."""

    cluster_id: str = ""
    """Empty where the node has never heard of a cluster."""

    term: int = 0
    """The term of the controller that made the last change."""

    version: int = 0

    def __str__(self) -> str:
        return f"version {self.version} of term {self.term}"


NO_POSITION: Final = MetadataPosition()


class TermBeginning(Message, frozen=True):
    """A controller began to change the metadata at a version."""

    term: int
    version: int


def term_at(terms: tuple[TermBeginning, ...], version: int) -> int | None:
    """Return the term of the change that led to a version; None where that is not remembered any more."""
    for begun in reversed(terms):
        if begun.version < version:
            return begun.term
    return None if len(terms) >= TERMS_KEPT else 0
