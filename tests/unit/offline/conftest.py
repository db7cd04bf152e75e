"""Data directories of stopped and of killed nodes, written once and copied for each test."""

import shutil

import pytest

from tests.support.data_directories import write_directory


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The directories that tests get copies of."""
    folder = tmp_path_factory.mktemp("written")
    write_directory(folder / "stopped")
    write_directory(folder / "killed", killed=True)
    return folder


@pytest.fixture
def data_dir(written, tmp_path):
    """What a cluster has left that was stopped in good order."""
    return shutil.copytree(written / "stopped", tmp_path / "data")


@pytest.fixture
def killed_dir(written, tmp_path):
    """What a cluster has left that was killed."""
    return shutil.copytree(written / "killed", tmp_path / "killed")
