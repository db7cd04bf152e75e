"""A test that is a coroutine is awaited: one that fails is seen, wherever it stands and whatever it is made of."""

import subprocess
import sys

import pytest

PASSES = """
import asyncio

import pytest


async def test_waits():
    await asyncio.sleep(0)


async def test_waits_an_hour(virtual_time):
    await asyncio.sleep(3599)


@pytest.fixture
def there(runner):
    async def loop():
        return asyncio.get_running_loop()

    return runner.run(loop())


async def test_fixture_lives_on_the_loop_of_the_test(there):
    assert there is asyncio.get_running_loop()
"""
FAILS = """
import functools

import pytest


async def test_function():
    raise AssertionError


class TestClass:
    async def test_method(self):
        raise AssertionError


@pytest.mark.parametrize("number", [1, 2])
async def test_parameters(number):
    raise AssertionError


async def test_waits_for_ever(virtual_time):
    await __import__("asyncio").sleep(3601)


async def hidden():
    pass


def test_coroutine_that_is_only_returned():
    return hidden()


async def test_coroutine_that_is_only_made():
    hidden()
"""


@pytest.mark.parametrize(("source", "outcome"), [(PASSES, "3 passed"), (FAILS, "7 failed")])
def test_coroutines_are_awaited(tmp_path, source, outcome):
    (tmp_path / "test_planted.py").write_text(source)
    options = [
        "-q",
        "--rootdir",
        str(tmp_path),
        "-p",
        "tests.support.async_tests",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1].startswith(outcome), ended.stdout
