"""The options of a sink, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Self, cast

import msgspec

from eagleray.pipelines.options import values
from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.given import Given
from eagleray.pipelines.options.table import Option

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

SMALLEST_BATCH_BYTES: Final = 1024
LARGEST_BATCH_BYTES: Final = 64 * 1024 * 1024


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to write, in what batches and transactions, and to which cluster."""

    streaming: bool
    topic: str | None
    include_headers: bool
    compression: Compression
    batch_bytes: int
    exactly_once: bool
    fail_on_checkpoint_mismatch: bool
    checkpoint_location: str | None
    group: str | None
    transactional_id_prefix: str
    transaction_timeout_ms: int
    cluster: str
    address: str
    contact: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """Parse the options of a `write` or `writeStream`; raises OptionError for what cannot be followed."""
        given = Given(options, side="sink", streaming=streaming)
        parsed = cls(
            streaming=streaming,
            topic=given.optional("topic", values.name),
            include_headers=given.required("includeHeaders", values.boolean),
            compression=cast(
                Compression, given.required("compression", values.one_of("none", "gzip", "snappy", "lz4", "zstd"))
            ),
            batch_bytes=given.required("batchBytes", _batch_bytes),
            exactly_once=given.required("exactlyOnce", values.boolean),
            fail_on_checkpoint_mismatch=given.required("failOnCheckpointMismatch", values.boolean),
            checkpoint_location=given.sparks_own("checkpointLocation"),
            group=given.optional("group", values.name),
            transactional_id_prefix=given.required("transactionalIdPrefix", values.name),
            transaction_timeout_ms=given.required("transactionTimeout", values.duration_ms),
            cluster=given.required("cluster", values.name),
            address=given.required("address", values.name),
            contact=given.optional("contact", values.name),
        )
        if parsed.group is not None and parsed.streaming and parsed.checkpoint_location is None:
            raise OptionError(
                "group is given without checkpointLocation, from which the offsets are taken that are to be committed "
                "for it: give .option('checkpointLocation', ...) to the same writeStream."
            )
        return parsed

    @property
    def begins_anew(self) -> bool:
        """Whether a batch is written although the cluster has committed a later one of the query."""
        return self.streaming and self.exactly_once and not self.fail_on_checkpoint_mismatch


def _batch_bytes(option: Option, text: str) -> int:
    return values.size_bytes(option, text, SMALLEST_BATCH_BYTES, LARGEST_BATCH_BYTES)
