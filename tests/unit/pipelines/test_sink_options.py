"""Options of a sink: what they mean and what is said about those that cannot be followed."""

import pickle

import pytest

from eagleray.pipelines.options import OptionError, SinkOptions


def batch(**options: str) -> SinkOptions:
    return SinkOptions.parse(options, streaming=False)


def streaming(**options: str) -> SinkOptions:
    return SinkOptions.parse(options, streaming=True)


def test_defaults():
    assert streaming() == SinkOptions(
        streaming=True,
        topic=None,
        include_headers=True,
        compression="none",
        batch_bytes=256 * 1024,
        exactly_once=True,
        fail_on_checkpoint_mismatch=True,
        checkpoint_location=None,
        group=None,
        transactional_id_prefix="spark",
        transaction_timeout_ms=15 * 60 * 1000,
        cluster="default",
        address="auto",
        contact=None,
    )


def test_options_travel():
    options = streaming(topic="orders", group="billing", checkpointLocation="/data/c")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("5m", 300_000),
        ("5min", 300_000),
        ("90s", 90_000),
        ("250ms", 250),
        ("250", 250),
        ("1H", 3_600_000),
        (" 1 d ", 86_400_000),
    ],
)
def test_times(text: str, milliseconds: int):
    assert batch(transactionTimeout=text).transaction_timeout_ms == milliseconds


@pytest.mark.parametrize("text", ["0", "-5m", "5 weeks", "m", "", "1.5m", "30d", "٣s"])
def test_times_that_are_none(text: str):
    with pytest.raises(OptionError, match=r"^transactionTimeout is .*a time of 1 ms to 24 days.*such as '5m'"):
        batch(transactionTimeout=text)


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("64k", 65_536), ("1m", 1_048_576), ("2 MB", 2_097_152)])
def test_sizes(text: str, size: int):
    assert batch(batchBytes=text).batch_bytes == size


@pytest.mark.parametrize("text", ["1023", "65m", "1g", "k", "-1"])
def test_sizes_that_are_none(text: str):
    with pytest.raises(OptionError, match=r"^batchBytes is .*a size from 1024 to 67108864 bytes"):
        batch(batchBytes=text)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(codec: str):
    assert batch(compression=codec.upper()).compression == codec


def test_an_unknown_codec():
    with pytest.raises(OptionError, match=r"^compression is 'brotli'.*none, gzip, snappy, lz4 or zstd"):
        batch(compression="brotli")


def test_options_that_spark_adds_are_kept():
    assert streaming(checkpointLocation="/tmp/c", path="x").checkpoint_location == "/tmp/c"


@pytest.mark.parametrize(("name", "value"), [("exactlyOnce", "true"), ("group", "g")])
def test_options_of_streams_in_a_batch(name: str, value: str):
    with pytest.raises(OptionError, match=rf"^{name} is an option of streaming queries \(writeStream\).*\(write\)"):
        batch(**{name: value})


def test_a_group_needs_the_checkpoint_that_has_its_offsets():
    assert streaming(group="g", checkpointLocation="/data/c").group == "g"
    with pytest.raises(
        OptionError, match=r"^group is given without checkpointLocation.*\.option\('checkpointLocation'"
    ):
        streaming(group="g")


def test_group_has_two_names():
    assert streaming(groupId="g", checkpointLocation="/data/c").group == "g"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("subscribe", "^subscribe is an option of the source, not of the sink"),
        ("tpic", "^'tpic' is not an option of the sink. Did you mean topic?"),
        ("kafka.bootstrap.servers", "use cluster, address or contact"),
        ("kafka.transactional.id", "use transactionalIdPrefix"),
        ("kafka.transaction.timeout.ms", "use transactionTimeout"),
        ("kafka.compression.type", "use compression"),
        ("kafka.isolation.level", "a sink does not read"),
    ],
)
def test_options_that_are_none(name: str, said: str):
    with pytest.raises(OptionError, match=said):
        batch(**{name: "x"})


@pytest.mark.parametrize("name", ["topic", "transactionalIdPrefix"])
def test_names_are_not_empty(name: str):
    with pytest.raises(OptionError, match=f"^{name} is '', but has to be a text that is not empty"):
        batch(**{name: ""})


def test_series_begins_anew_only_in_streams_that_are_exactly_once_and_follow_their_checkpoint():
    follows = {"failOnCheckpointMismatch": "false"}
    assert streaming(**follows).begins_anew
    assert not streaming().begins_anew
    assert not streaming(exactlyOnce="false", **follows).begins_anew
