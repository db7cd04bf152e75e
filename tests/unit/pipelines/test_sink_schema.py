"""Columns of the source and of the sink, checked without a Spark session."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from eagleray.pipelines.sink.schema import SchemaError, check_sink_schema
from eagleray.pipelines.source.schema import HEADERS_TYPE, source_schema


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in types.items()])


def test_the_columns_of_the_source_are_those_of_sparks():
    plain = "key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"

    assert source_schema(include_headers=False).simpleString() == f"struct<{plain}>"
    headers = "headers:array<struct<key:string,value:binary>>"
    assert source_schema(include_headers=True).simpleString() == f"struct<{plain},{headers}>"


@pytest.mark.parametrize("data_type", [StringType(), BinaryType(), StringType("UTF8_LCASE")])
def test_a_value_is_enough_with_the_option_topic(data_type: DataType):
    check_sink_schema(columns(value=data_type), "orders")
    check_sink_schema(columns(value=data_type, key=data_type), "orders")


def test_all_columns():
    check_sink_schema(
        columns(
            headers=HEADERS_TYPE,
            timestamp=TimestampType(),
            partition=IntegerType(),
            topic=StringType(),
            key=BinaryType(),
            value=BinaryType(),
        ),
        None,
    )


def test_nullability_does_not_matter():
    header = StructType([StructField("key", StringType(), nullable=False), StructField("value", BinaryType())])
    schema = StructType(
        [
            StructField("value", StringType(), nullable=False),
            StructField("headers", ArrayType(header, containsNull=False), nullable=False),
        ]
    )
    check_sink_schema(schema, "orders")


def test_a_value_has_to_be_there():
    with pytest.raises(SchemaError, match=r"needs a column value \(string or binary\)"):
        check_sink_schema(columns(key=StringType()), "orders")


def test_a_topic_has_to_come_from_somewhere():
    check_sink_schema(columns(value=StringType(), topic=StringType()), None)
    with pytest.raises(SchemaError, match="set the option topic, or add a column topic"):
        check_sink_schema(columns(value=StringType()), None)


@pytest.mark.parametrize(
    ("name", "data_type", "said"),
    [
        ("value", LongType(), r"value is bigint, but has to be string or binary: use CAST\(value AS string\)"),
        ("value", columns(a=LongType()), r"value is struct<a:bigint>.*use to_json\(value\) AS value"),
        ("key", ArrayType(LongType()), r"key is array<bigint>.*use to_json\(key\)"),
        ("topic", BinaryType(), "topic is binary, but has to be string"),
        ("partition", LongType(), r"partition is bigint, but has to be int: use CAST\(partition AS int\)"),
        (
            "timestamp",
            DoubleType(),
            r"timestamp is double, but has to be timestamp: use CAST\(timestamp AS timestamp\)",
        ),
        ("timestamp", TimestampNTZType(), "timestamp is timestamp_ntz, .*time zone of the session"),
        ("headers", MapType(StringType(), BinaryType()), "headers is map.*array<struct<key:string,value:binary>>"),
        ("headers", ArrayType(columns(key=StringType(), value=StringType())), "headers is array"),
        ("headers", ArrayType(columns(value=BinaryType(), key=StringType())), "headers is array"),
        ("headers", ArrayType(columns(key=StringType())), "headers is array"),
    ],
)
def test_columns_of_another_type(name: str, data_type: DataType, said: str):
    types = {"value": StringType(), name: data_type}
    with pytest.raises(SchemaError, match=said):
        check_sink_schema(columns(**types), "orders")


def test_unknown_columns_are_named_and_so_are_those_there_are():
    schema = columns(value=StringType(), customer=StringType(), Key=StringType())
    with pytest.raises(
        SchemaError,
        match=r"columns customer, Key: it takes key, value, topic, partition, timestamp, headers.*mean key by Key\?",
    ):
        check_sink_schema(schema, "orders")


def test_a_column_that_is_there_twice():
    schema = StructType([StructField("value", StringType()), StructField("value", StringType())])
    with pytest.raises(SchemaError, match="2 columns value: keep one"):
        check_sink_schema(schema, "orders")


def test_everything_that_is_wrong_is_told_at_once():
    with pytest.raises(SchemaError, match=r"customer.*column value.*option topic.*key is bigint"):
        check_sink_schema(columns(customer=StringType(), key=LongType()), None)
