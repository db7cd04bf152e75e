"""Peers that begin like the direct lane: whether they are of this cluster."""

from __future__ import annotations

from eagleray.actors.lanes.frames import PREFACE_BYTES, NotOurs, check_preface


def is_whole_preface(data: bytes) -> bool:
    """Whether a peer of the direct lane has said all by which it is known."""
    return len(data) >= PREFACE_BYTES


def stranger(data: bytes, token: bytes) -> tuple[str, str] | None:
    """Return a kind and a sentence about a peer whose preface shows that it is not of this cluster."""
    try:
        check_preface(data[:PREFACE_BYTES], token)
    except NotOurs as error:
        return "stranger", str(error)
    return None
