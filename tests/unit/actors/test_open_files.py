"""A node takes as many open files as it may have."""

import logging
import resource

import pytest

from eagleray.actors.process.open_files import FEW, raise_limit


@pytest.fixture
def limits():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limit_is_raised_as_far_as_the_system_allows(limits):
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert raise_limit() == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_few_files_are_told_of(monkeypatch, caplog):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (FEW - 1, FEW - 1))
    with caplog.at_level(logging.WARNING):
        assert raise_limit() == FEW - 1
    assert "LimitNOFILE" in caplog.text
