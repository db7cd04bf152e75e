"""Asking a Ray cluster, without joining it, whether it is there at all and which Eagleray clusters run on it."""

from __future__ import annotations

import os
import socket
from typing import Final

import grpc  # type: ignore[import-untyped] # grpcio has no types
import ray
from ray._private.grpc_utils import init_grpc_channel
from ray._private.utils import read_ray_address
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from eagleray.actors.cluster.embedded_ray import present_token
from eagleray.actors.cluster.ray_processes import blocked_sigterm
from eagleray.actors.cluster.supervision import clusters_in

_CONNECT_S: Final = 3.0
ANSWER_S: Final = 5.0
_GCS_FLAG: Final = b"--gcs-address="


class NoRay(Exception):
    """No Ray cluster can be joined at an address; the text says why not."""


def clusters_at(address: str, answer_s: float = ANSWER_S) -> tuple[str, ...]:
    """The names of the clusters that run on the Ray cluster whose head listens at HOST:PORT; raises NoRay.

    Joining takes seconds where Ray is there; where it is not, minutes and pages of Ray's own output.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        # Python raises the last where a part of the name is empty or too long.
        reason = "no host has such a name" if isinstance(error, UnicodeError) else getattr(error, "strerror", None)
        raise NoRay(f"no Ray cluster answers at {address} ({reason or error})") from None
    present_token()
    request = gcs_service_pb2.ListNamedActorsRequest(all_namespaces=True)  # type: ignore[attr-defined] # generated
    try:
        with blocked_sigterm(), init_grpc_channel(address) as channel:
            stub = gcs_service_pb2_grpc.ActorInfoGcsServiceStub(channel)  # type: ignore[no-untyped-call] # generated
            reply = stub.ListNamedActors(request, timeout=answer_s)
    except grpc.RpcError as error:
        raise NoRay(_reason(address, error.code())) from None
    return clusters_in(each.ray_namespace for each in reply.named_actors_list)


def _reason(address: str, status: grpc.StatusCode) -> str:
    if status in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return (
            f"the Ray cluster at {address} does not take the token of this user; set RAY_AUTH_MODE=token, and "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token to the token of the cluster"
        )
    return (
        f"what listens at {address} is not the head of a Ray cluster ({status.name}); expected its GCS, "
        "at port 6379 by default, and not the port of Kafka's clients"
    )


def joined_address() -> str | None:
    """The Ray cluster that this process has joined; None where it has joined none."""
    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else None


def clusters_joined() -> tuple[str, ...]:
    """The names of the clusters on the Ray cluster that this process has joined."""
    return clusters_in(actor["namespace"] for actor in ray.util.list_named_actors(all_namespaces=True))


def started_by_ray() -> str | None:
    """The Ray cluster that `ray start` has made this machine a part of, as Ray has written it down."""
    address: str | None = read_ray_address()
    return address or None


def running_here() -> tuple[str, ...]:
    """The Ray clusters with a node on this machine that this user has started, by the addresses of their heads.

    Those of other users are left out: a program that asks a Ray cluster shows it the token of this user.
    """
    return tuple(sorted({_address_of(pid) for pid in os.listdir("/proc") if pid.isdecimal()} - {""}))


def _address_of(pid: str) -> str:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return ""
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
    except OSError:
        return ""
    if os.path.basename(arguments[0]) != b"raylet":
        return ""
    flags = (argument for argument in arguments if argument.startswith(_GCS_FLAG))
    return next(flags, b"").removeprefix(_GCS_FLAG).decode(errors="replace")
