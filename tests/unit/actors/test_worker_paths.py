"""Which directories Ray's workers look into: none that hides the package of the program."""

import os

import eagleray
from eagleray.actors.cluster.worker_paths import hides_ours, job_config, why_not_ours


def test_directory_with_another_package_of_our_name_is_left_out(tmp_path):
    hiding, harmless = tmp_path / "checkout", tmp_path / "jobs"
    (hiding / "eagleray").mkdir(parents=True)
    harmless.mkdir()
    config = job_config()
    # As Ray does it when a program joins.
    config._py_driver_sys_path.extend([str(harmless), str(hiding)])
    assert list(config._get_proto_job_config().py_driver_sys_path) == [str(harmless)]


def test_directory_of_the_package_itself_hides_nothing(tmp_path):
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(eagleray.__file__)))
    assert not hides_ours(checkout)
    (tmp_path / "link").symlink_to(checkout)
    assert not hides_ours(str(tmp_path / "link"))


def test_workers_without_the_package_are_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "install the same eagleray as here" in why_not_ours()
