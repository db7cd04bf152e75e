"""Spark's own Kafka connector, on the class paths of the driver and of RayDP's executors."""

import re
from pathlib import Path

from tests.compat.kafka_tools.jars import resolve_jars_of

POM = Path(__file__).with_name("pom.xml")
CONNECTOR_VERSION = re.compile(r"<connector\.version>(.+)</connector\.version>")


def connector_version() -> str:
    """The version of the connector that the pom names."""
    (version,) = CONNECTOR_VERSION.findall(POM.read_text())
    return str(version)


def connector_settings() -> dict[str, str]:
    """Spark's settings that bring the connector into a session; Maven fetches it at the first call.

    `spark.jars` would be copied to the executors by a server of the driver; all of them are on this machine.
    """
    directory = resolve_jars_of(POM, f"spark-kafka-{connector_version()}")
    class_path = ":".join(str(jar) for jar in sorted(directory.glob("*.jar")))
    return {"spark.driver.extraClassPath": class_path, "raydp.executor.extraClassPath": class_path}
