"""Which cluster is meant: one rule for programs and commands, without Ray, files or a network.

In this order: the address that was given; the Ray that this process has joined; the address in the environment
(EAGLERAY_ADDRESS, then RAY_ADDRESS); the clusters that were started on this machine; the Ray of which `ray start` has
made this machine a part. The first of these that there is decides. Where more than one cluster may be meant, that is an
error, and none is taken by chance.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from eagleray.client.errors import ClusterNotFound, InvalidArgument

ENVIRONMENT: Final = ("EAGLERAY_ADDRESS", "RAY_ADDRESS")
AUTO: Final = "auto"
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/]+):([0-9]{1,5})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
EXPECTED_NAME: Final = "up to 64 letters, digits, dots, dashes and underscores"


class Place(enum.Enum):
    """Where a cluster is looked for."""

    CONTACT_FILE = enum.auto()
    RAY = enum.auto()
    """At the head of a Ray cluster, by its address."""

    JOINED_RAY = enum.auto()
    ANY_RAY_HERE = enum.auto()
    """`auto`: at the Ray that runs on this machine, whichever started it."""

    THIS_MACHINE = enum.auto()
    """Among the clusters that were started on this machine, then at the Ray of `ray start`."""


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A cluster that runs."""

    name: str
    address: str


class Words(msgspec.Struct, frozen=True):
    """How the arguments that choose a cluster are written, and what to do where there is none."""

    name: str
    address: str
    advice: str = ClusterNotFound.advice


PROGRAM: Final = Words("name={!r}", "address={!r}")
COMMAND: Final = Words(
    "--name {}",
    "--address {}",
    "Start one with `eagleray start --data-dir DIR`, or choose one with --name or --address.",
)


def where_to_look(
    address: str | None, joined: str | None, environment: Mapping[str, str], is_file: Callable[[str], bool]
) -> tuple[Place, str]:
    """Return where to look, and the address or the path that belongs to it; raises InvalidArgument."""
    if address is None and joined is not None:
        return Place.JOINED_RAY, joined
    if address is None:
        address = next((environment[key] for key in ENVIRONMENT if environment.get(key)), None)
    if address is None:
        return Place.THIS_MACHINE, ""
    if address == AUTO:
        return (Place.ANY_RAY_HERE, "") if joined is None else (Place.JOINED_RAY, joined)
    if not isinstance(address, str):
        raise _wrong_address(address, environment)
    found = _HOST_AND_PORT.fullmatch(address)
    if found is not None and 0 < int(found[2]) < 2**16:
        return Place.RAY, address
    if is_file(address) or ("/" in address and "://" not in address):
        return Place.CONTACT_FILE, address
    raise _wrong_address(address, environment)


def _wrong_address(address: object, environment: Mapping[str, str]) -> InvalidArgument:
    # Commands take the variable for their option, so that it cannot be told by where the text comes from.
    variables = [key for key in ENVIRONMENT if environment.get(key)][:1]
    what = next((key for key in variables if environment[key] == address), "address")
    return InvalidArgument(
        f"{what} is {address!r}; expected HOST:PORT of the head of a Ray cluster, auto, or the path of a contact file."
    )


def check_name(name: object) -> str | None:
    """Return the name of a cluster as it was given, or None; raises InvalidArgument."""
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidArgument(f"name is {name!r}; expected {EXPECTED_NAME}.")
    return name


def choose(
    name: str | None, candidates: Iterable[Candidate], words: Words, *, where: str, others: Sequence[Candidate] = ()
) -> Candidate:
    """Return the one cluster that may be meant; raises ClusterNotFound, which lists those that there are.

    `others` are clusters that were not looked at, because they are elsewhere.
    """
    found = sorted(set(candidates))
    matching = [candidate for candidate in found if name in (None, candidate.name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise not_found(f"{len(matching)} clusters {where} may be meant: {_listed(matching, words)}.", words)
    wanted = "no Eagleray cluster" if name is None else f"no Eagleray cluster named {name!r}"
    known = sorted({*found, *others})
    listed = f"; there {'is' if len(known) == 1 else 'are'} {_listed(known, words)}" if known else ""
    raise not_found(f"there is {wanted} {where}{listed}.", words)


def not_found(message: str, words: Words) -> ClusterNotFound:
    """Return the error with what to do in the words of the program or command that asked."""
    error = ClusterNotFound(message)
    error.advice = words.advice
    return error


def _listed(candidates: Sequence[Candidate], words: Words) -> str:
    return ", ".join(f"{each.name} ({_arguments(each, candidates, words)})" for each in candidates)


def _arguments(candidate: Candidate, candidates: Sequence[Candidate], words: Words) -> str:
    name, address = words.name.format(candidate.name), words.address.format(candidate.address)
    is_unique = sum(each.name == candidate.name for each in candidates) == 1
    is_one_ray = len({each.address for each in candidates}) == 1
    if is_unique and is_one_ray:
        return name
    separator = ", " if words is PROGRAM else " "
    return f"{name}{separator}{address}"
