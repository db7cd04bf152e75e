"""Whether a heartbeat makes sense at all, before the coordinator looks at the group."""

from __future__ import annotations

from typing import Final

from eagleray.broker.groups.config import LONGEST_TEXT
from eagleray.broker.groups.consumer.decisions import HeartbeatRefusal
from eagleray.broker.groups.consumer.member import JOINING, LEAVING_FOR_A_WHILE
from eagleray.broker.limits import shown
from eagleray.broker.patterns import BadPattern, compile_pattern
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENT_GENERATES_MEMBER_ID: Final = 1
"""From this version on a member brings its id; before, the coordinator gives it one."""

NOT_GIVEN_MS: Final = -1


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> HeartbeatRefusal | None:
    """Say what is wrong with a heartbeat, if anything is."""
    error = _bad_name(request, version)
    if error is None and request.member_epoch == JOINING:
        error = _bad_join(request)
    elif error is None and request.member_epoch < LEAVING_FOR_A_WHILE:
        error = f"there is no member epoch {request.member_epoch}"
    elif error is None and request.rebalance_timeout_ms < NOT_GIVEN_MS:
        error = "a rebalance timeout is not negative"
    elif error is None and request.member_epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        error = "only a member with an instance id can leave for a while"
    if error is not None:
        return HeartbeatRefusal(ErrorCode.INVALID_REQUEST, error)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        return HeartbeatRefusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {shown(request.server_assignor)!r}; there are {known}",
        )
    return _check_regex(request.subscribed_topic_regex)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Say whether a member tells everything about itself, as it does when it may have missed an answer."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    tells_all = (
        request.rebalance_timeout_ms != NOT_GIVEN_MS and has_subscription and request.topic_partitions is not None
    )
    return tells_all or request.member_epoch == JOINING


def _bad_name(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    may_lack_id = request.member_epoch == JOINING and version < CLIENT_GENERATES_MEMBER_ID
    names = (
        ("group id", request.group_id, False),
        ("member id", request.member_id, may_lack_id),
        ("instance id", request.instance_id, False),
        ("rack id", request.rack_id, False),
    )
    for what, name, may_be_empty in names:
        if name == "" and not may_be_empty:
            return f"the {what} is empty"
        if name is not None and len(name) > LONGEST_TEXT:
            return f"the {what} is longer than {LONGEST_TEXT} characters"
    return None


def _bad_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms < 0:
        return "a member that joins has to give a rebalance timeout"
    if request.topic_partitions is None or request.topic_partitions:
        return "a member that joins owns no partitions, and has to say so"
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "a member that joins has to give topic names or a regular expression"
    return None


def _check_regex(regex: str | None) -> HeartbeatRefusal | None:
    if not regex:
        return None
    try:
        compile_pattern(regex)
    except BadPattern as problem:
        message = f"the regular expression {regex[:100]!r} cannot be used: {problem}"
        return HeartbeatRefusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    return None
