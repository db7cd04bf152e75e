"""How far one micro-batch goes: maxOffsetsPerTrigger and minOffsetsPerTrigger."""

from __future__ import annotations

from collections.abc import Mapping

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.offsets import Offsets


def next_offsets(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit_rows: int | None
) -> Offsets:
    """Return where a batch ends that begins at `start` and takes about `limit_rows` offsets; None for all there is.

    Every partition that has something gets at least one offset, so that none starves beside larger ones; a limit below
    their number is exceeded by that. The rest is shared in proportion to what waits in each, so that exactly the limit
    is taken. `start` has every partition of `latest` (see `begin_offsets`); no partition goes backwards.
    """
    waiting = {partition: max(0, end - start[partition]) for partition, end in latest.items()}
    limit = sum(waiting.values()) if limit_rows is None else limit_rows
    taken = _share(waiting, limit) if limit < sum(waiting.values()) else waiting
    return {partition: start[partition] + taken[partition] for partition in latest}


def _share(waiting: Mapping[TopicPartition, int], limit_rows: int) -> dict[TopicPartition, int]:
    """Hand out one to each partition that has something, and the rest by the method of largest remainders."""
    first = {partition: min(1, size) for partition, size in waiting.items()}
    beyond = {partition: size - first[partition] for partition, size in waiting.items()}
    total = sum(beyond.values())
    rest = max(0, limit_rows - sum(first.values()))
    if rest == 0:
        return first
    taken = {partition: first[partition] + rest * size // total for partition, size in beyond.items()}
    left = limit_rows - sum(taken.values())
    # The name of the partition breaks ties, so that a plan made again is the same plan.
    by_remainder = sorted(beyond, key=lambda partition: (-(rest * beyond[partition] % total), partition))
    for partition in by_remainder[:left]:
        taken[partition] += 1
    return taken


def is_due(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    min_rows: int,
    waited_ms: int,
    max_delay_ms: int,
) -> bool:
    """Return whether enough waits for a batch, or has waited long enough: minOffsetsPerTrigger and maxTriggerDelay.

    `waited_ms` is the time since the last batch. Not for Trigger.AvailableNow, where nothing more comes.
    """
    if waited_ms >= max_delay_ms:
        return True
    return sum(max(0, end - start[partition]) for partition, end in latest.items()) >= min_rows
