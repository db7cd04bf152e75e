"""How Java starts in tests: soon, and without what only pays in a long run.

Of the Java processes that Spark starts most live for less than a minute, half of which they would spend compiling.
"""

from collections.abc import Mapping
from typing import Final

QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

QUICK_JAVA: Final[Mapping[str, str]] = {"JAVA_TOOL_OPTIONS": " ".join(QUICK_START)}
"""For the environment of what starts Spark, the Ray of its executors among it.

Java prints that it has seen this, where the user of a program with Spark does not see it: its driver writes to a log.
"""
