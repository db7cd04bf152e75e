"""Settings have Kafka's names and are checked when they are made."""

import pytest

from eagleray.client.config import MEANINGS, ConsumerConfig, ProducerConfig
from eagleray.client.errors import InvalidConfig


def test_kafkas_keys_and_keywords_mean_the_same():
    by_key = ProducerConfig.make({"transactional.id": "a", "linger.ms": 5})

    assert by_key == ProducerConfig.make(transactional_id="a", linger_ms=5)
    assert by_key.linger_ms == 5


def test_keywords_win_over_the_mapping():
    assert ProducerConfig.make({"linger.ms": 5}, linger_ms=7).linger_ms == 7


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(InvalidConfig, match=r"'linger\.sm'.*did you mean linger\.ms"):
        ProducerConfig.make({"linger.sm": 5})
    with pytest.raises(InvalidConfig, match=r"'isolation'.*did you mean isolation_level"):
        ConsumerConfig.make(isolation="read_committed")


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (ProducerConfig, "linger.ms", -1),
        (ProducerConfig, "linger.ms", "5"),
        (ProducerConfig, "acks", 2),
        (ProducerConfig, "compression.type", "rar"),
        (ProducerConfig, "max.in.flight.requests.per.connection", 6),
        (ProducerConfig, "transactional.id", ""),
        (ProducerConfig, "partitioner", 7),
        (ConsumerConfig, "auto.offset.reset", "newest"),
        (ConsumerConfig, "max.poll.records", 0),
    ],
)
def test_values_outside_of_their_range_are_refused_by_name(config: type, key: str, value: object):
    with pytest.raises(InvalidConfig, match=key.replace(".", r"\.")):
        config.make({key: value})


@pytest.mark.parametrize(
    "settings",
    [
        {"transactional_id": "a", "enable_idempotence": False},
        {"acks": 1},
        {"acks": 0, "enable_idempotence": True},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, object]):
    with pytest.raises(InvalidConfig, match=r"idempotence"):
        ProducerConfig.make(**settings)


def test_committing_by_itself_needs_a_group():
    with pytest.raises(InvalidConfig, match=r"group\.id"):
        ConsumerConfig.make(enable_auto_commit=True)


@pytest.mark.parametrize(("acks", "number"), [("all", -1), (-1, -1), (1, 1), (0, 0)])
def test_acks_all_is_minus_one_on_the_wire(acks: object, number: int):
    assert ProducerConfig.make(acks=acks, enable_idempotence=number == -1).acks_number == number


@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig])
def test_the_table_describes_every_setting(config: type):
    rows = {row.key: row for row in config.table()}

    assert set(rows) == {name.replace("_", ".") for name in config.__struct_fields__}
    assert all(row.meaning.endswith(".") and row.type for row in rows.values())


def test_the_table_knows_defaults_and_ranges():
    rows = {row.key: row for row in ProducerConfig.table()}

    assert (rows["linger.ms"].type, rows["linger.ms"].default, rows["linger.ms"].range) == ("int", "0", "0 or more")
    assert rows["max.in.flight.requests.per.connection"].range == "1 to 5"
    assert rows["compression.type"].range == "none, gzip, snappy, lz4, zstd"
    assert rows["transactional.id"].type == "str"


def test_no_meaning_is_left_from_a_setting_that_is_gone():
    assert set(MEANINGS) == set(ProducerConfig.__struct_fields__) | set(ConsumerConfig.__struct_fields__)


@pytest.mark.parametrize(
    ("config", "name"),
    [(ProducerConfig, "transactional_id"), (ConsumerConfig, "group_id"), (ConsumerConfig, "group_instance_id")],
)
def test_name_that_utf8_has_no_bytes_for_is_refused(config, name):
    settings = {"group_id": "g", name: "\udcff"} if config is ConsumerConfig else {name: "\udcff"}
    with pytest.raises(InvalidConfig, match="can be written as UTF-8"):
        config.make(settings)
