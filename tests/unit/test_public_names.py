"""The names that an application imports: all of them are there, and none of them loads Ray before its time."""

import importlib
import inspect
import subprocess
import sys

import pytest

import eagleray
import eagleray.aio
import eagleray.errors
from eagleray.client import errors


@pytest.mark.parametrize("name", eagleray.__all__)
def test_exported_name_is_there(name: str):
    assert getattr(eagleray, name) is not None
    assert name in dir(eagleray)


def test_flavours_have_the_same_names():
    flavours = {
        "Admin",
        "BranchToken",
        "BranchWriter",
        "Cluster",
        "Consumer",
        "Delivery",
        "Producer",
        "SealedBranch",
        "Transaction",
    }
    assert flavours <= set(eagleray.__all__)
    assert flavours <= set(eagleray.aio.__all__)


@pytest.mark.parametrize("name", [name for name in dir(eagleray.Admin) if not name.startswith("_")])
def test_admins_of_both_flavours_take_the_same_arguments(name: str):
    blocking, on_a_loop = (
        [
            (each.name, each.kind, each.default, each.annotation)
            for each in inspect.signature(method).parameters.values()
        ]
        for method in (getattr(eagleray.Admin, name), getattr(eagleray.aio.Admin, name))
    )
    assert blocking == on_a_loop


def test_every_error_of_the_client_is_in_the_module_of_errors():
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, eagleray.EaglerayError)
    }
    assert defined <= set(vars(eagleray.errors))
    assert eagleray.errors is importlib.import_module("eagleray.errors")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = eagleray.no_such_name


@pytest.mark.parametrize(
    "line", ["import eagleray", "from eagleray.errors import FatalError", "from eagleray import Producer"]
)
def test_ray_is_not_loaded_by(line: str):
    program = f"{line}; import sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
