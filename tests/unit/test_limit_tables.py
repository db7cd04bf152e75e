"""docs/limits.md is what the code would write, and leaves out no setting that is a bound by its name."""

import pytest

from eagleray.actors.common.settings import described_cluster_settings
from eagleray.protocol.errors import ErrorCode
from tests.support.scripts import check_document, load_script

BETWEEN_NODES = {
    "controller.quorum.push.max.bytes",
    "metadata.max.wait.ms",
    "queued.requests.limit",
    "replica.lag.time.max.ms",
    "replica.push.max.bytes",
}
RULES_AND_NOT_AMOUNTS = {
    "clock.max.jump.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "max.compaction.lag.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
}


@pytest.fixture(scope="module")
def script():
    return load_script("limit_tables")


def test_document_is_up_to_date():
    check_document("limit_tables")


def test_every_setting_that_is_a_bound_by_its_name_has_a_row(script):
    named = {key for key in described_cluster_settings() if {"max", "limit"} & {*key.split(".")}}
    shown = {row[0].strip("`") for row in script.setting_rows()}
    assert named - shown == BETWEEN_NODES | RULES_AND_NOT_AMOUNTS


def test_no_cell_is_empty_or_breaks_the_table(script):
    for row in (*script.setting_rows(), *script.FIXED_ROWS):
        assert all(cell.strip() and "|" not in cell and "\n" not in cell for cell in row), row


def test_error_codes_in_the_table_are_kafkas(script):
    words = {word.strip(",;") for row in (*script.setting_rows(), *script.FIXED_ROWS) for word in row[-1].split()}
    codes = {word for word in words if word.isupper()}
    assert "POLICY_VIOLATION" in codes
    assert codes <= {code.name for code in ErrorCode}
