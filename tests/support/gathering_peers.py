"""Peers whose turns the test ends, for what gathers in a turn what it asks of other nodes."""


class GatheringPeers:
    """Peers that call what gathers when the turn ends, and keep what goes out."""

    def __init__(self):
        self._sent = []
        self._gathering = []

    def gather(self, node_id, ask):
        self._gathering.append(ask)

    def ask(self, node_id, on_reply, message_type, *fields, **named):
        assert on_reply is None
        self._sent.append((node_id, message_type(0, *fields, **named)))

    def end(self):
        """Return what goes out, and to whom."""
        gathering, self._gathering = self._gathering, []
        for ask in gathering:
            ask()
        sent, self._sent = self._sent, []
        return sent
