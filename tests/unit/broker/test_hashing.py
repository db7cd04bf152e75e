"""Java's hash, against values that Java gives."""

import pytest

from eagleray.broker.hashing import java_string_hash, partition_for_name

JAVA = {
    "": 0,
    "a": 97,
    "ab": 3105,
    "hello": 99162322,
    "Aa": 2112,
    "BB": 2112,
    "The quick brown fox jumps over the lazy dog": -609428141,
    "polygenelubricants": -(2**31),
    "ä": 228,
    "😀": 1772899,
}


def by_horner(text: str) -> int:
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % 2**32
    return value


@pytest.mark.parametrize("text", JAVA)
def test_the_hash_is_javas(text: str):
    assert by_horner(text) == JAVA[text] % 2**32, "the table itself"
    assert java_string_hash(text) == JAVA[text] % 2**32


@pytest.mark.parametrize("text", ["x" * 1000, "long ä " * 100, "\ud800", "checkout-producer-17"])
def test_long_names_and_half_characters(text: str):
    assert java_string_hash(text) == by_horner(text)


def test_a_name_goes_to_the_absolute_value_of_its_hash():
    name = "The quick brown fox jumps over the lazy dog"

    assert partition_for_name(name, 50) == 609428141 % 50
    assert partition_for_name("hello", 50) == 99162322 % 50


def test_the_one_hash_that_java_cannot_negate_goes_to_partition_zero():
    assert partition_for_name("polygenelubricants", 50) == 0
    assert partition_for_name("polygenelubricants", 3) == 0
