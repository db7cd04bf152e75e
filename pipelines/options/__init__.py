"""The options of the data source `eagleray`: parsed, checked and documented from one table."""

from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.sink import SinkOptions
from eagleray.pipelines.options.source import SourceOptions, wants_headers

__all__ = ["OptionError", "SinkOptions", "SourceOptions", "wants_headers"]
