"""Finding a cluster by the rule of `eagleray.location`, with what files and Ray say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from eagleray import cluster_records
from eagleray.actors.cluster import ray_probe
from eagleray.actors.cluster.ray_probe import NoRay
from eagleray.actors.process.cluster_credentials import ClusterCredentials, decode_credentials
from eagleray.client.errors import InvalidArgument
from eagleray.location import PROGRAM, Candidate, Place, Words, check_name, choose, not_found, where_to_look

DEFAULT_NAME: Final = "default"
_ON_MACHINE: Final = "that was started on this machine"
_START_ADVICE: Final = "Start Ray there, or leave the address out: then the cluster gets a Ray of its own."
_CHOOSE_ADVICE: Final = "Choose one, or leave the address out: then the cluster gets a Ray of its own."
_GLANCE_S: Final = 1.0
"""How long to ask a Ray cluster whose clusters are only named in an error."""


class Location(msgspec.Struct, frozen=True):
    """Where a cluster is: at which Ray, or, with credentials, where its nodes listen."""

    name: str
    address: str = ""
    credentials: ClusterCredentials | None = None


def locate(name: str | None, address: str | None, words: Words = PROGRAM) -> Location:
    """Return the location of the cluster that is meant; raises ClusterNotFound and InvalidArgument, within seconds."""
    check_name(name)
    joined = ray_probe.joined_address()
    place, where = where_to_look(address, joined, os.environ, os.path.isfile)
    if place is Place.CONTACT_FILE:
        return Location(name or DEFAULT_NAME, credentials=_read_contact_file(where, words))
    if place is Place.RAY and joined is not None:
        where, place = _checked_joined(where, joined, words), Place.JOINED_RAY
    if place is Place.THIS_MACHINE:
        return _started_here(name, words)
    candidates = {
        Place.JOINED_RAY: lambda: _named(ray_probe.clusters_joined(), where),
        Place.RAY: lambda: _clusters_at(where, words),
        Place.ANY_RAY_HERE: lambda: _on_any_ray_here(words),
    }[place]()
    text = "on the Ray clusters of this machine" if place is Place.ANY_RAY_HERE else f"on the Ray cluster at {where}"
    return _located(choose(name, candidates, words, where=text))


def check_ray(address: str | None, words: Words = PROGRAM) -> None:
    """Raise ClusterNotFound or InvalidArgument, within seconds, where no Ray cluster can be joined at an address.

    For starting a cluster: without an address there is nothing to check, and `auto` is for Ray to find, unless there
    are several: Ray would take one of them by chance.
    """
    if address is None:
        return
    joined = ray_probe.joined_address()
    words = msgspec.structs.replace(words, advice=_START_ADVICE)
    place, where = where_to_look(address, joined, os.environ, os.path.isfile)
    if place is Place.CONTACT_FILE:
        raise InvalidArgument(f"address is {address!r}; expected HOST:PORT of a Ray cluster to start on, or auto.")
    if place is Place.RAY and joined is not None:
        _checked_joined(where, joined, words)
    elif place is Place.RAY:
        _clusters_at(where, words)
    elif place is Place.ANY_RAY_HERE:
        _check_only(_any_ray_here(), words)


def _check_only(addresses: Sequence[str], words: Words) -> None:
    if len(addresses) > 1:
        listed = ", ".join(words.address.format(address) for address in addresses)
        words = msgspec.structs.replace(words, advice=_CHOOSE_ADVICE)
        raise not_found(f"{len(addresses)} Ray clusters of this machine may be meant: {listed}.", words)


def _located(candidate: Candidate) -> Location:
    return Location(candidate.name, candidate.address)


def _named(names: Iterable[str], address: str) -> list[Candidate]:
    return [Candidate(name, address) for name in names]


def _clusters_at(address: str, words: Words) -> list[Candidate]:
    try:
        return _named(ray_probe.clusters_at(address), address)
    except NoRay as error:
        raise not_found(f"{error}.", words) from None


# What is on this machine


def _started_here(name: str | None, words: Words) -> Location:
    started = [Candidate(record.name, record.address) for record in cluster_records.load_all() if _is_live(record)]
    if not any(name in (None, candidate.name) for candidate in started):
        found = _if_there(ray_probe.started_by_ray())
        if any(name in (None, candidate.name) for candidate in found):
            return _located(choose(name, found, words, where="on the Ray cluster of this machine"))
        started += found
        others = [each for address in ray_probe.running_here() for each in _if_there(address, _GLANCE_S)]
        return _located(choose(name, started, words, where=_ON_MACHINE, others=others))
    return _located(choose(name, started, words, where=_ON_MACHINE))


def _is_live(record: cluster_records.ClusterRecord) -> bool:
    """Whether a cluster is still there; what has a keeper lives as long as it, and others as long as their Ray."""
    return bool(record.keeper_pid) or Candidate(record.name, record.address) in _if_there(record.address)


def _any_ray_here() -> tuple[str, ...]:
    """The Ray that `ray start` has started, else all that run on this machine."""
    by_ray, running = ray_probe.started_by_ray(), ray_probe.running_here()
    return (by_ray,) if by_ray is not None and by_ray in running else running


def _on_any_ray_here(words: Words) -> list[Candidate]:
    addresses = _any_ray_here()
    if not addresses:
        raise not_found("no Ray runs on this machine; give the address of one elsewhere, HOST:PORT.", words)
    return [each for address in addresses for each in _if_there(address)]


def _if_there(address: str | None, answer_s: float = ray_probe.ANSWER_S) -> list[Candidate]:
    """The clusters on a Ray cluster; none where it is gone."""
    try:
        return [] if address is None else _named(ray_probe.clusters_at(address, answer_s), address)
    except NoRay:
        return []


# Ray that was joined


def _checked_joined(address: str, joined: str, words: Words) -> str:
    if not cluster_records.is_same_ray(address, joined):
        raise InvalidArgument(
            f"{words.address.format(address)} is not the Ray cluster at {joined}, which this process has joined; "
            "a process is in one Ray cluster: leave that one with ray.shutdown(), or give the path of a contact file."
        )
    return joined


# Contacts


def _read_contact_file(path: str, words: Words) -> ClusterCredentials:
    try:
        with open(path, "rb") as file:
            return decode_credentials(file.read())
    except OSError as error:
        raise not_found(f"the contact file {path!r} cannot be read: {error.strerror}.", words) from None
    except msgspec.MsgspecError:
        text = f"{path!r} is no contact file; `eagleray contact FILE` writes one on a machine of the cluster."
        raise not_found(text, words) from None
