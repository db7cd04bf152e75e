"""The commands `eagleray pipeline …`. Nothing here loads Spark before a command needs it."""

from eagleray.pipelines.cli.app import app

__all__ = ["app"]
