"""What a node hears of the resolvers that are actors."""

from __future__ import annotations

import msgspec


class ResolverVerdict(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What has become of a question."""

    commit: bool | None = None
    """None where the outcome is not known."""

    why: str = ""
    """Why it is not known."""
