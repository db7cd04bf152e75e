"""A pool as its coordinator knows it: its slots, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.broker.transactions.table import Transaction


class Pool:
    """The slots of one name, beside the transactional id of that name, which says who has the pool.

    Owns: nothing that the log does not say. A slot belongs to its pool as long as the owner that its record names is
    the holder of the pool's name. So the one record that gives the name to another fences every slot, however many
    there are, and however many the new owner wants.
    """

    __slots__ = ("head", "name", "slots", "under_way")

    def __init__(self, name: str) -> None:
        self.name = name
        self.head: Transaction | None = None
        """The transactional id of the pool's own name, if there is one."""
        self.slots: dict[int, Transaction] = {}
        """By their numbers."""
        self.under_way: set[str] = set()
        """The slots with a decision whose markers are not all written."""

    def has(self, slot: Transaction) -> bool:
        """Whether a slot is that of the pool's present owner."""
        owner, head = slot.current.owner, self.head
        return owner is not None and head is not None and head.current.is_held_by(owner)

    def has_any(self) -> bool:
        """Whether one of its slots is that of its present owner."""
        return any(map(self.has, self.slots.values()))

    def left_prepared(self) -> Iterator[Transaction]:
        """Go over the slots with a prepared transaction, by their numbers."""
        return (slot for _, slot in sorted(self.slots.items()) if slot.current.is_prepared)

    @property
    def used_ms(self) -> int:
        """When the pool or one of its slots has changed last: as long as one of them is used, all of them are."""
        members = self.slots.values() if self.head is None else (self.head, *self.slots.values())
        return max(member.current.updated_ms for member in members)
