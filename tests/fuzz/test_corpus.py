"""What fuzzing has found, and inputs that reach much, break nothing any more."""

import logging

import pytest

from tests.fuzz.mutations import CORPUS
from tests.fuzz.targets import TARGETS

CASES = [(path.parent.name, path.name) for path in sorted(CORPUS.glob("*/*"))]
MOST_CORPUS_BYTES = 400_000


@pytest.fixture(autouse=True)
def quiet():
    """Strangers are logged, which takes longer than to serve them."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("target", "name"), CASES)
def test_input_breaks_nothing(target: str, name: str):
    taken = TARGETS[target]()
    taken((CORPUS / target / name).read_bytes())
    taken.close()
    assert taken.frames


def test_every_target_has_a_corpus_that_is_small():
    assert {target for target, _ in CASES} == set(TARGETS)
    assert sum((CORPUS / target / name).stat().st_size for target, name in CASES) < MOST_CORPUS_BYTES
