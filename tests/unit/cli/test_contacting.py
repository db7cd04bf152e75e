"""`eagleray contact`, and Spark's way to a cluster with the file that it writes."""

import os
import stat

import pytest

from eagleray.pipelines.connection import ClusterNotReached, location_of
from tests.support.cli_cluster import fail, succeed


def test_the_file_leads_to_the_cluster_without_ray(topic, tmp_path):
    file = tmp_path / "contact"
    said = succeed("contact", file).stdout
    assert f"wrote {file}" in said

    cluster = location_of("default", str(file), str(file)).connect()
    assert cluster.admin.list_topics()[topic] == 2


def test_only_its_owner_may_read_it_even_if_it_was_there(cluster, tmp_path):
    file = tmp_path / "contact"
    file.touch(mode=0o644)
    succeed("contact", file)

    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert file.stat().st_size < 10_000


def test_a_file_that_cannot_be_written_is_a_usage_error(cluster, tmp_path):
    assert "cannot write" in fail("contact", tmp_path / "nowhere" / "contact")


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_file_that_is_no_contact_says_what_to_do(tmp_path, content):
    file = tmp_path / "contact"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ClusterNotReached, match=r"contact file .* cannot be read.*`eagleray contact FILE`"):
        location_of("default", "auto", str(file))
