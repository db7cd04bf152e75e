"""How much a node asks of others on its direct lanes, counted for operators."""

from __future__ import annotations


class Traffic:
    """Counts questions and the bytes of both directions; an answer is a part of what its question costs.

    Owns: the counts, from the beginning of a process on. They are never set back, so two looks give what was between.
    """

    __slots__ = ("frames", "questions", "received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.questions = 0
        self.frames = 0
        """Frames that carried the questions: one for all that were asked of a node within a turn."""

        self.sent_bytes = 0
        self.received_bytes = 0

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}
