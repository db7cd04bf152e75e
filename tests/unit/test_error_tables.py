"""docs/errors.md is what the code would write, and has every exception of the client."""

import inspect
from types import ModuleType

import pytest

from eagleray import errors
from tests.support.scripts import check_document, load_script

EXCEPTIONS = {
    name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.EaglerayError)
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("error_tables")


def test_document_is_up_to_date():
    check_document("error_tables")


def test_exception_has_one_row_with_a_meaning_and_an_advice(script: ModuleType):
    rows = [row for group in script.GROUPS for row in script.rows_of(group)]
    assert sorted(name.strip("`") for name, _, _ in rows) == sorted(EXCEPTIONS - {"EaglerayError"})
    for _, meaning, advice in rows:
        assert meaning
        assert advice
        assert "|" not in meaning + advice


def test_exception_without_an_advice_of_its_own_has_that_of_its_group(script: ModuleType):
    (row,) = (row for row in script.rows_of(errors.RetriableError) if row[0] == "`LeaderUnavailable`")
    assert row[2] == errors.RetriableError.advice
