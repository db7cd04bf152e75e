"""What is raised for options that cannot be followed."""


class OptionError(ValueError):
    """An option is unknown, missing, out of place or has a value that cannot be used; the message says what to do."""
