"""The errors of commands, each in one line."""

from __future__ import annotations

from typing import Final

from eagleray.broker.log import InvalidConfig
from eagleray.client import errors
from eagleray.client.errors import EaglerayError

ADVICE: Final[dict[type[EaglerayError], str]] = {
    errors.EaglerayError: "",
    errors.RetriableError: "Try again later; `eagleray status` shows whether all nodes are there.",
    errors.AbortableError: "Nothing was committed; run the command again.",
    errors.FatalError: "Run the command again.",
    errors.RefusedError: "Correct what the command asks for; repeating it changes nothing.",
    errors.NotConnected: "`eagleray status` shows whether the cluster runs and its nodes can be reached.",
    errors.NodeUnreachable: "Open the port to this machine, or take Ray's lane: set EAGLERAY_LANE=ray.",
    errors.BufferFull: "The cluster takes records more slowly than they come; `eagleray status` shows its nodes.",
    errors.PoolBusy: "The transactions of the pool end more slowly than others begin.",
    errors.UnstableOffsets: "`eagleray txn find-hanging` finds a transaction that never ends.",
    errors.DeliveryTimeout: "`eagleray topic describe TOPIC` shows whether its partitions have leaders.",
    errors.MessageTooLarge: (
        "Write smaller records (max.request.size is 1048576 bytes), or raise the topic's limit with "
        "`eagleray topic alter TOPIC --config max.message.bytes=N`."
    ),
    errors.OutOfOrderSequence: "Records before this one were lost by the cluster; look for the cause in its logs.",
    errors.TransactionTimedOut: "Nothing was committed; write less at once.",
    errors.OffsetsInUse: "Another transaction goes on with the same partition.",
    errors.CommitFailed: "The group has other members by now; run the command again.",
    errors.RecordRefused: "Correct the record; `eagleray topic describe TOPIC` shows the topic's settings.",
    errors.ProducerFenced: "The newer producer goes on in its place: two of them must not share a --transactional-id.",
    errors.PoolFenced: "The newer owner of the pool goes on in its place.",
    errors.AuthorizationFailed: "Ask for the permission, then run the command again.",
    errors.UnsupportedByCluster: "Use the same release of Eagleray here and in the cluster.",
    errors.ServerFailed: "The cluster's logs say more.",
    errors.ClientClosed: "Run the command again.",
    errors.ForkedClient: "Run the command again.",
    errors.InvalidConfig: "docs/configuration.md lists every setting with its default.",
    errors.ClusterNotFound: "Start one with `eagleray start`, or choose one with --name and --address.",
    errors.CannotStart: "Nothing was left running.",
    errors.CannotAdd: "The cluster goes on as it is.",
    errors.InvalidTransactionState: "`eagleray txn describe ID` shows where the transaction is.",
    errors.NotCompleted: "`eagleray txn describe ID` shows it, and the commands that end it.",
    errors.CompletedOtherwise: "`eagleray txn describe ID` shows where the transactional id stands.",
    errors.TopicNotFound: "`eagleray topic list` shows those there are, `eagleray topic create NAME` makes one.",
    errors.TopicExists: "Use it as it is, or choose another name.",
    errors.TopicRefused: "Correct the name, the number of partitions or the settings; nothing was changed.",
    errors.ReplicasRefused: "`eagleray node list` lists the nodes; whatever the message does not mention goes on.",
    errors.OffsetOutOfRange: "`eagleray topic describe TOPIC` shows which offsets there are; choose one with --from.",
    errors.NoOffset: "Say where to begin with --from.",
    errors.CorruptRecords: "Go on behind the damaged batch with --from; a disk or the memory there may be failing.",
    errors.TransactionNotFound: "`eagleray txn list` lists those known; it may be misspelt or expired.",
    errors.GroupNotFound: "`eagleray group list` lists those that have committed offsets.",
    errors.GroupBusy: "Stop its consumers first.",
}
"""What to do about an error on the command line, where the errors themselves speak to Python programs."""


class UsageError(Exception):
    """Something to tell the user: what was wrong, what was expected, what to do."""


def line_for(error: Exception) -> str | None:
    """Return the line for an error that users can do something about; None for any other."""
    if isinstance(error, BrokenPipeError):
        return None
    if isinstance(error, EaglerayError):
        return _one_line(_with_our_advice(error))
    if isinstance(error, UsageError | InvalidConfig):
        return _one_line(str(error))
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return _one_line(f"{where}{error.strerror}")
    return None


def _with_our_advice(error: EaglerayError) -> str:
    """What the error says, and the command that helps, unless the message names one itself."""
    message = message_of(error)
    ours = next(ADVICE[kind] for kind in type(error).__mro__ if kind in ADVICE)
    # What the error's own class advises is for programs; what was put in its place is for whom it was raised.
    advice = error.advice if error.advice != type(error).advice else ours
    return message if "`eagleray " in message else f"{message} {advice}".rstrip()


def message_of(error: EaglerayError) -> str:
    """What an error says, without what to do about it, for a command that knows better."""
    code = "" if error.error_code is None else f" [{error.error_code.name}]"
    return _one_line(f"{error.message or type(error).__doc__ or ''}{code}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
