"""Topic configs: those of a topic's logs, and those that only the controller and the leaders look at."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from eagleray.broker.limits import shown
from eagleray.broker.log.config import CLEANUP_POLICY, CONFIG_KEYS, LogConfig
from eagleray.broker.settings import NOT_IN_KAFKA, Changed, Described, InvalidConfig, Setting, TopicSetting, described

_INT32_MAX: Final = 2**31 - 1
_LONGEST_COUNT: Final = len(str(_INT32_MAX))
NO_MAX_HOLD_MS: Final = -1
MAX_HOLD: Final = "transaction.max.hold.ms"


class LeaderPlacement(enum.StrEnum):
    """Whether partitions share their leaders."""

    SHARED = "shared"
    DEDICATED = "dedicated"
    """Each partition has a node of its own, which is started for it."""


class CompressionType(enum.StrEnum):
    """How the batches of a topic are compressed."""

    PRODUCER = "producer"
    """As the producer compressed them."""

    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All the settings of a topic, parsed and checked."""

    log: LogConfig = LogConfig()
    leader_placement: Annotated[
        LeaderPlacement,
        Setting(
            "Whether partitions of the topic share leaders with others (`shared`), or each has an actor of its own "
            "(`dedicated`), which is a process.",
            kafka=NOT_IN_KAFKA,
            changed=Changed.AT_CREATION,
        ),
    ] = LeaderPlacement.SHARED

    min_insync_replicas: Annotated[
        int,
        TopicSetting(
            "The number of replicas that have to be in sync for a write with `acks=all` to be taken; with fewer it is "
            "refused with NOT_ENOUGH_REPLICAS. A partition with fewer replicas than this needs all of them.",
            least=1,
        ),
    ] = 1

    unclean_leader_election_enable: Annotated[
        bool,
        TopicSetting(
            "Whether a replica that is not in sync may be elected leader when none that is in sync is left. Then "
            "records that were acknowledged, committed transactions among them, can be lost; with false the partition "
            "is offline until a replica that was in sync is back.",
        ),
    ] = False

    compression_type: Annotated[
        CompressionType,
        TopicSetting(
            "The codec that the topic's batches are meant to have. It is accepted for Kafka's tools and has no effect: "
            "batches stay as their producer compressed them.",
        ),
    ] = CompressionType.PRODUCER

    transaction_max_hold_ms: Annotated[
        int,
        Setting(
            "How long an unprepared transaction that writes to the topic may be open, and so hold back the readers of "
            "committed records. Then its coordinator aborts it, as at its timeout, and its producer is told why. The "
            "smallest of all the topics that a transaction writes to counts; -1 leaves it to the timeout.",
            unit="ms",
            least=NO_MAX_HOLD_MS,
            kafka=NOT_IN_KAFKA,
            changed=Changed.ANY_TIME,
        ),
    ] = NO_MAX_HOLD_MS

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> TopicConfig:
        """Build a config from text settings by Kafka's key names; `InvalidConfig` says what to write instead."""
        check_keys(settings)
        log = LogConfig.parse({key: text for key, text in settings.items() if key in CONFIG_KEYS})
        own = {key: parse(key, settings[key]) for key, parse in _PARSERS.items() if key in settings}
        return cls(log=log, **{key.replace(".", "_"): value for key, value in own.items()})

    @property
    def is_dedicated(self) -> bool:
        """Whether each partition has a node of its own."""
        return self.leader_placement is LeaderPlacement.DEDICATED

    def as_text(self) -> dict[str, str]:
        """Return every setting with its effective value, as text that parses to the same config."""
        texts = {key: text_of(getattr(self, key.replace(".", "_"))) for key in _PARSERS}
        return dict(sorted((texts | log_config_as_text(self.log)).items()))


def log_config_as_text(config: LogConfig) -> dict[str, str]:
    """Return every setting of a log as text that `LogConfig.parse` takes for the same config."""
    texts = {key: text_of(getattr(config, key.replace(".", "_"))) for key in CONFIG_KEYS if key != "cleanup.policy"}
    policies = {"compact": config.cleanup_compact, "delete": config.cleanup_delete}
    return texts | {"cleanup.policy": ",".join(policy for policy, is_set in policies.items() if is_set)}


def text_of(value: object) -> str:
    """Return a value as the text of a setting."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_choice(choices: type[enum.StrEnum]) -> Callable[[str, str], enum.StrEnum]:
    def parse(key: str, text: str) -> enum.StrEnum:
        try:
            return choices(text)
        except ValueError:
            raise InvalidConfig(f"{key} is {shown(text)!r}; expected {' or '.join(choices)}") from None

    return parse


def _parse_count(key: str, text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_COUNT
    if not (is_number and 1 <= int(text) <= _INT32_MAX):
        raise InvalidConfig(f"{key} is {shown(text)!r}; expected a whole number from 1 to {_INT32_MAX}")
    return int(text)


def _parse_max_hold(key: str, text: str) -> int:
    if text == str(NO_MAX_HOLD_MS):
        return NO_MAX_HOLD_MS
    try:
        return _parse_count(key, text)
    except InvalidConfig:
        expected = f"milliseconds from 1 to {_INT32_MAX}, or {NO_MAX_HOLD_MS} for no limit"
        raise InvalidConfig(f"{key} is {shown(text)!r}; expected {expected}") from None


def _parse_boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidConfig(f"{key} is {shown(text)!r}; expected true or false")
    return text.lower() == "true"


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "leader.placement": _parse_choice(LeaderPlacement),
    "min.insync.replicas": _parse_count,
    "unclean.leader.election.enable": _parse_boolean,
    "compression.type": _parse_choice(CompressionType),
    MAX_HOLD: _parse_max_hold,
}

TOPIC_CONFIG_KEYS: Final = CONFIG_KEYS | frozenset(_PARSERS)
"""Every setting that a topic may be given."""


def max_hold_ms(settings: Mapping[str, str]) -> int:
    """Return how long a transaction may hold back the readers of a topic with these settings."""
    text = settings.get(MAX_HOLD)
    return NO_MAX_HOLD_MS if text is None else _parse_max_hold(MAX_HOLD, text)


def described_topic_settings() -> dict[str, Described]:
    """Every setting of a topic by its name, with its meaning and the rest."""
    policy = Described("cleanup.policy", tuple[str, ...], ("delete",), CLEANUP_POLICY)
    found = [policy, *described(LogConfig).values(), *described(TopicConfig).values()]
    return {each.key: each for each in sorted(found, key=lambda each: each.key)}


def check_keys(keys: Iterable[str]) -> None:
    """Refuse settings that do not exist."""
    for key in keys:
        if key not in TOPIC_CONFIG_KEYS:
            nearest = difflib.get_close_matches(shown(key), sorted(TOPIC_CONFIG_KEYS), n=1)
            every = ", ".join(sorted(TOPIC_CONFIG_KEYS))
            hint = f"did you mean {nearest[0]}?" if nearest else f"expected one of {every}"
            raise InvalidConfig(f"unknown topic setting {shown(key)!r}; {hint}")
