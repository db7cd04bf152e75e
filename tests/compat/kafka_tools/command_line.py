"""Kafka's command-line tools, each in a JVM of its own, as its shell scripts start them."""

import subprocess
from typing import Self

import msgspec

from tests.compat.kafka_tools.dump_log import JVM_OPTIONS
from tests.compat.kafka_tools.jars import find_java, resolve_jars

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
}
SECONDS = 180


class ToolFailedError(Exception):
    """A tool ended with an error; the message is all that it said."""


class CommandLine(msgspec.Struct, frozen=True):
    """The tools, ready to run against one cluster."""

    java: str
    jars: str
    bootstrap_servers: str

    @classmethod
    def find(cls, bootstrap_servers: str) -> Self:
        """Find Java and bring Kafka's jars; raise ToolsUnavailableError where that cannot be done."""
        return cls(find_java(), str(resolve_jars()), bootstrap_servers)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool and return its output; raise ToolFailedError where it says that it has failed."""
        servers = ("--bootstrap-server", self.bootstrap_servers)
        # Where a tool has commands of its own, the option belongs to the tool; but here, to the command.
        options = (*arguments, *servers) if tool == "cluster" else (*servers, *arguments)
        ended = subprocess.run(
            (self.java, *JVM_OPTIONS, "-cp", f"{self.jars}/*", TOOLS[tool], *options),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            raise ToolFailedError(f"{tool} {' '.join(arguments)}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout
