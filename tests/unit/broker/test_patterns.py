"""Regular expressions of clients: which are taken, and what they describe."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        "(a+)+",
        "(a*)*b",
        "((a+)b)*",
        "((ab){2,}c){1,}",
        r"(\d+[*])+",
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
        "x" * 2000,
        "x{2001}",
        "(x{100}){100}",
        "(((){900}){900}){900}",
        "(?:" * 300 + ")" * 300,
        "(a?){400}",
        r"\bx",
        "(?m)^a",
        "(?x) a",
        "(?#a)b",
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


PIECES = st.sampled_from([*"abA.()|*+?^$", "[ab]", "[^a]", r"\w", "(?:", "(?i:", "{2}", "{1,3}", "{,2}", "{1,}"])


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(st.text("abAB", max_size=7), min_size=1, max_size=10))
def test_patterns_describe_what_they_do_in_python(pattern: str, texts: list[str]):
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        return
    for text in texts:
        assert compiled.describes(text) is bool(re.fullmatch(pattern, text)), (pattern, text)


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
        (r"\x41\u0042\103\.", "ABC.", True),
        (r"a{b}", "a{b}", True),
        ("", "", True),
        ("$^", "", True),
        ("(^|$)a", "a", True),
        ("(|a)b", "b", True),
    ],
)
def test_what_patterns_describe(pattern: str, text: str, is_described: bool):
    assert compile_pattern(pattern).describes(text) is is_described
    assert bool(re.fullmatch(pattern, text)) is is_described


@pytest.mark.parametrize("pattern", [".*" * 20 + "x", "(a+)+x", "(a*)*x", "(a|a)*x", "(a?){20}a{20}x"])
def test_no_pattern_takes_long(pattern: str):
    """Python would take years over any of these."""
    began_s = time.process_time()
    assert not compile_pattern(pattern).describes("a" * 5000)
    assert time.process_time() - began_s < 5
