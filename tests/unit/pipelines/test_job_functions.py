"""Functions of job files: where they are found, and what is said where they are not."""

import sys

import pytest
from pyspark import cloudpickle

from eagleray.pipelines.jobs import InvalidJob
from eagleray.pipelines.jobs.functions import load_function


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A directory with a module beside the job file; nothing of it is known afterwards."""
    (tmp_path / "shop_jobs.py").write_text("LIMIT = 5\n\ndef only_large(frame):\n    return [frame, LIMIT]\n")
    (tmp_path / "needy_jobs.py").write_text("import package_that_is_not_there\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield str(tmp_path)
    for name in ("shop_jobs", "needy_jobs"):
        if sys.modules.pop(name, None) is not None:
            cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES.discard(name)


def test_function_beside_the_job_file_travels_with_its_module(directory):
    function = load_function("shop_jobs:only_large", directory)
    assert function("rows") == ["rows", 5]

    # An executor does not have the directory: what it gets has to work without it.
    pickled = cloudpickle.dumps(function)
    del sys.modules["shop_jobs"]
    sys.path.remove(directory)
    assert cloudpickle.loads(pickled)("rows") == ["rows", 5]
    sys.modules["shop_jobs"] = None
    cloudpickle.cloudpickle._PICKLE_BY_VALUE_MODULES.discard("shop_jobs")


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("shop_jbs:only_large", "there is no module 'shop_jbs' for the transform; it has to be beside the job file in"),
        ("shop_jobs:only_lrge", "has no function 'only_lrge'; did you mean 'only_large'?"),
        ("shop_jobs:LIMIT", "'shop_jobs:LIMIT' is a int; expected a function"),
        ("needy_jobs:any", "needs 'package_that_is_not_there', which is not installed"),
    ],
)
def test_missing_function_is_named(directory, name, refusal):
    with pytest.raises(InvalidJob, match=refusal):
        load_function(name, directory)
