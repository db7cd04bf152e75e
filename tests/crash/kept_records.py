"""What a housekeeper has told, and whether its logs have that."""

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.protocol.records import Record
from tests.crash.housekeeper import ORDERS, PRICES, Acknowledged, Sent

REPORTS = msgspec.json.Decoder(Sent | Acknowledged)


class Told:
    """Everything that the housekeepers of one directory have told, one after the other."""

    def __init__(self) -> None:
        self.sent: dict[int, Sent] = {}
        self.offsets: dict[int, int] = {}

    def hear(self, report: Sent | Acknowledged) -> None:
        if isinstance(report, Sent):
            assert report.number not in self.sent
            self.sent[report.number] = report
        else:
            self.offsets[report.number] = report.offset

    def numbers(self, partition: TopicPartition) -> list[int]:
        """Everything that was sent to a partition, in order."""
        return [sent.number for sent in self.sent.values() if (sent.key >= 0) == (partition == PRICES)]

    def acknowledged(self, partition: TopicPartition, before_offset: int) -> dict[int, int]:
        """What was acknowledged in a partition at an offset before this one, with its offset."""
        known = {number: self.offsets[number] for number in self.numbers(partition) if number in self.offsets}
        return {number: offset for number, offset in known.items() if offset < before_offset}

    def end(self, partition: TopicPartition) -> int:
        """Where a partition ended when the last record was acknowledged."""
        return max((self.offsets.get(number, -1) for number in self.numbers(partition)), default=-1) + 1

    def lose_behind(self, partition: TopicPartition, end_offset: int) -> None:
        """Forget what was acknowledged, and was lost with the power."""
        for number in self.numbers(partition):
            if self.offsets.get(number, -1) >= end_offset:
                del self.offsets[number]


def check_orders(told: Told, log: PartitionLog) -> None:
    """Each acknowledged record is there once, at the offset that was told, and all of them in order."""
    found = {int(bytes(record.value).split()[0]): record.offset for record in records_of(log)}
    assert len(found) == len(records_of(log)), "a record is there twice"
    assert [*found] == sorted(found)
    assert found.keys() <= {*told.numbers(ORDERS)}
    assert told.acknowledged(ORDERS, log.log_end_offset).items() <= found.items()


def check_prices(told: Told, log: PartitionLog) -> None:
    """Of each key the newest record that was acknowledged is there, or a newer one; and what is there was sent."""
    found = {int(bytes(record.value).split()[0]): record.offset for record in records_of(log)}
    assert [*found] == sorted(found)
    newest_sent: dict[int, int] = {}
    for number, offset in told.acknowledged(PRICES, log.log_end_offset).items():
        newest_sent[told.sent[number].key] = number
        assert found.get(number, offset) == offset
    newest_found = {told.sent[number].key: number for number in found}
    for key, number in newest_sent.items():
        assert newest_found[key] >= number, f"the newest record of key {key} is gone"


def records_of(log: PartitionLog) -> list[Record]:
    return [record for batch in log.batches() for record in batch.records()]


CHECKS = {ORDERS: check_orders, PRICES: check_prices}
