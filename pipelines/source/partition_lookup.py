"""Looks up the partitions and offsets that the planning of a read needs."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.client.sync_cluster import SyncCluster
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.options.positions import Position
from eagleray.pipelines.options.topics import partitions_to_read
from eagleray.pipelines.source.data_loss import Resolved
from eagleray.pipelines.source.offsets import Bounds
from eagleray.pipelines.source.resolution import resolve_end, resolve_start, timestamps_to_look_up


class PartitionLookup(msgspec.Struct, frozen=True):
    """The partitions that a query's options select, and where their logs begin and end at the moment."""

    _cluster: SyncCluster
    _options: SourceOptions

    def bounds(self, *, all_must_exist: bool = False) -> dict[TopicPartition, Bounds]:
        """Return what can be read of each partition; with `all_must_exist`, raise OptionError where one is missing."""
        counts = self._cluster.admin.list_topics(internal=True)
        selection = self._options.selection
        partitions = partitions_to_read(selection, counts) if all_must_exist else selection.choose(counts)
        if not partitions:
            return {}
        with self._cluster.consumer(isolation=self._options.isolation) as consumer:
            earliest, latest = consumer.beginning_offsets(*partitions), consumer.end_offsets(*partitions)
        return {
            partition: Bounds(min(earliest[partition], latest[partition]), latest[partition])
            for partition in partitions
        }

    def start(self, bounds: dict[TopicPartition, Bounds]) -> Resolved:
        """Return where the options say to begin."""
        options = self._options
        return resolve_start(
            options.start,
            bounds,
            self._answers(options.start, bounds),
            on_no_match=options.on_no_match,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    def end(self, bounds: dict[TopicPartition, Bounds]) -> Resolved:
        """Return where the options say to end."""
        options = self._options
        answers = self._answers(options.end, bounds)
        return resolve_end(options.end, bounds, answers, fail_on_data_loss=options.fail_on_data_loss)

    def _answers(self, position: Position, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        questions = timestamps_to_look_up(position, partitions)
        if not questions:
            return {}
        with self._cluster.consumer(isolation=self._options.isolation) as consumer:
            found = consumer.offsets_for_times(questions)
        return {partition: None if answer is None else answer.offset for partition, answer in found.items()}
