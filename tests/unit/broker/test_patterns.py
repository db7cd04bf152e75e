"""Regular expressions of clients: which are taken, and what they describe."""

import pytest

from eagleray.broker.patterns import BadPattern, compile_pattern, matching


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
    ],
)
def test_patterns_that_are_taken(pattern: str):
    compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*",
        "a{3,2}",
        r"\pL+",
        r"\Qa\E",
        "[[:alpha:]]+",
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
        "(a+)+",
        "(a*)*b",
        "((a+)b)*",
        "((ab){2,}c){1,}",
        r"(\d+[*])+",
        "x" * 2000,
    ],
)
def test_patterns_that_are_refused(pattern: str):
    with pytest.raises(BadPattern, match=r"."):
        compile_pattern(pattern)


def test_a_pattern_describes_a_name_from_beginning_to_end():
    assert matching("orders.*|pay", ["orders", "orders-eu", "my-orders", "payments", "pay"]) == {
        "orders",
        "orders-eu",
        "pay",
    }
