"""Users' credentials at the controller: set, replaced, removed, and refused for a reason."""

import pytest
from msgspec.structs import replace

from eagleray.broker.controller.credential_events import AlterCredentials, CredentialChange
from eagleray.broker.controller.events import GetMetadata
from eagleray.broker.security.scram import ScramCredential
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import SMALL, planned_driver

SHA_256, SHA_512 = 1, 2
OF_256, OF_512 = (ScramCredential(b"salt", bytes(length), bytes(length), 4096) for length in (32, 64))


def ask(driver, *changes):
    answer = driver.ask(AlterCredentials, tuple(CredentialChange(*change) for change in changes))
    return {result.user: result.error_code for result in answer.results}


def test_credentials_are_set_replaced_and_removed():
    driver = planned_driver()
    assert ask(driver, ("ada", SHA_256, OF_256), ("ada", SHA_512, OF_512)) == {"ada": ErrorCode.NONE}
    other = ScramCredential(b"other", bytes(32), bytes(32), 8192)
    assert ask(driver, ("ada", SHA_256, other)) == {"ada": ErrorCode.NONE}
    assert driver.image.credentials == {"ada": {SHA_256: other, SHA_512: OF_512}}
    assert ask(driver, ("ada", SHA_256), ("ada", SHA_512)) == {"ada": ErrorCode.NONE}
    assert driver.image.credentials == {}


@pytest.mark.parametrize(
    ("changes", "error_code"),
    [
        ([("", SHA_256, OF_256)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("a" * 1025, SHA_256, OF_256)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("ada", 3, OF_256)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([("ada", SHA_512, OF_256)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("ada", SHA_256, ScramCredential(b"", bytes(32), bytes(32), 4096))], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("ada", SHA_256, ScramCredential(b"s", bytes(32), bytes(32), 4095))], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("ada", SHA_256, ScramCredential(b"s", bytes(32), bytes(32), 16385))], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([("ada", SHA_256)], ErrorCode.RESOURCE_NOT_FOUND),
        ([("ada", SHA_256, OF_256), ("ada", SHA_256)], ErrorCode.DUPLICATE_RESOURCE),
        ([("ada", SHA_256, OF_256), ("ada", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_change_that_cannot_be_made_changes_nothing_of_its_user(changes, error_code):
    driver = planned_driver()
    assert ask(driver, *changes, ("ben", SHA_256, OF_256)) == {changes[0][0]: error_code, "ben": ErrorCode.NONE}
    assert driver.image.credentials == {"ben": {SHA_256: OF_256}}


def test_users_with_credentials_are_bounded():
    driver = planned_driver(replace(SMALL, max_scram_users=2))
    refused = ErrorCode.POLICY_VIOLATION
    assert ask(driver, ("a", 1, OF_256), ("b", 1, OF_256), ("c", 1, OF_256)) == {"a": 0, "b": 0, "c": refused}
    assert ask(driver, ("a", 2, OF_512), ("c", 1, OF_256)) == {"a": 0, "c": refused}
    assert ask(driver, ("a", 1), ("a", 2)) == {"a": 0}
    assert ask(driver, ("c", 1, OF_256)) == {"c": 0}


def test_client_that_asks_for_metadata_is_told_no_credentials():
    driver = planned_driver()
    ask(driver, ("ada", SHA_256, OF_256))
    assert driver.ask(GetMetadata).image.credentials == {}
    assert driver.image.credentials
