"""What every target raises."""


class Violation(AssertionError):
    """An invariant is broken."""
