"""A node's timer that a test rings by hand."""


class HandTimer:
    """Knows when it should ring for what, and never does so by itself."""

    def __init__(self):
        self.due_ms = {}

    def set(self, act, due_ms):
        self.due_ms[act] = due_ms
