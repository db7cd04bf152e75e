"""Regular expressions of clients: which are taken, and what they describe."""

import pytest

from eagleray.broker.patterns import LONGEST_PATTERN, BadPattern, compile_pattern, matching


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "orders-.*",
        "(orders|payments)-[0-9]+",
        "(?i)ORDERS",
        "(?:eu|us)-(?P<what>.+)",
        r"a\.b\(\*\+",
        "[(*+?=!]+",
        "[]a]+",
        r"[\]+]+x",
        "(a+b)?",
        "(a+){1,3}",
        r"x{2,}",
        "^orders$",
        "a*?b+?",
        "(a+)+",
        "(a*)*b",
        "((a+)b)*",
        "((ab){2,}c){1,}",
        r"(\d+[*])+",
        r"\pL+",
        r"\Qa.b\E",
        "[[:alpha:]]+",
        r"\bx",
        "(?m)^a",
        "(?U)a+",
        "(a?){400}",
        "(?:" * 200 + ")" * 200,
    ],
)
def test_pattern_in_re2s_language_is_taken(pattern: str):
    compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*",
        "a{3,2}",
        r"(a)\1",
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)b",
        "(?P<x>a)(?P=x)",
        "(a)?(?(1)b|c)",
        "a*+",
        "a++",
        "x{2001}",
        "(x{100}){100}",
        "(((){900}){900}){900}",
        "(?x) a",
        "(?#a)b",
        "\xe9{2001}",
    ],
)
def test_pattern_that_is_none_of_re2s_is_refused(pattern: str):
    with pytest.raises(BadPattern, match=r"."):
        compile_pattern(pattern)


def test_refusal_names_the_piece_that_is_wrong():
    with pytest.raises(BadPattern, match=r"^invalid repetition size: \{3,2\}$"):
        compile_pattern("a{3,2}")


def test_pattern_that_would_take_too_much_memory_is_refused():
    with pytest.raises(BadPattern, match="too large"):
        compile_pattern(r"[\pL\pN]{1000}")


def test_pattern_that_is_too_long_is_refused():
    compile_pattern("x" * LONGEST_PATTERN)
    with pytest.raises(BadPattern, match="1025 characters"):
        compile_pattern("x" * (LONGEST_PATTERN + 1))


def test_pattern_describes_a_name_from_beginning_to_end():
    assert matching("orders.*|pay", ["orders", "orders-eu", "my-orders", "payments", "pay"]) == {
        "orders",
        "orders-eu",
        "pay",
    }


def test_pattern_that_cannot_be_used_describes_no_name():
    assert matching("(?=a)b", ["a", "b", "(?=a)b"]) == frozenset()


@pytest.mark.parametrize(
    ("pattern", "text", "is_described"),
    [
        ("^orders$", "orders", True),
        ("a^b", "ab", False),
        ("a$b", "ab", False),
        ("(^a|b)c$", "ac", True),
        ("(^a|b)+c", "bac", False),
        ("(?i)Orders", "oRDERS", True),
        ("(?i:o)rders", "Orders", True),
        ("(?i:o)rders", "ORDERS", False),
        ("(?s).", "\n", True),
        (".", "\n", False),
        (".", "\xe9", True),
        (r"\x41\x{42}\103\.", "ABC.", True),
        (r"a{b}", "a{b}", True),
        ("", "", True),
        ("$^", "", True),
        ("(^|$)a", "a", True),
        ("(|a)b", "b", True),
    ],
)
def test_pattern_describes_what_re2_says(pattern: str, text: str, is_described: bool):
    assert compile_pattern(pattern).describes(text) is is_described


@pytest.mark.parametrize("pattern", [".*" * 20 + "x", "(a+)+x", "(a*)*x", "(a|a)*x", "(a?){20}a{20}x"])
def test_pattern_that_python_would_try_for_years_is_matched(pattern: str):
    assert not compile_pattern(pattern).describes("a" * 5000)
    assert compile_pattern(pattern).describes("a" * 5000 + "x") is not pattern.startswith("(a?)")
