"""UpdateFeatures, and what is answered to those who ask for security that is not there."""

import pytest

from eagleray.actors.wire.handlers import (
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
    sasl_authenticate,
    sasl_handshake,
    update_features,
)
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from eagleray.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from eagleray.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from eagleray.protocol.messages.describe_acls import DescribeAclsRequest
from eagleray.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest
from eagleray.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.wire_calls import in_wire_world


def answer(handler, request, version=-1):
    return in_wire_world(lambda world: world.request(handler, request, version=version))


# Features


def update(*features, version):
    updates = tuple(FeatureUpdateKey(*feature) for feature in features)
    return answer(update_features, UpdateFeaturesRequest(feature_updates=updates), version)


@pytest.mark.parametrize("version", range(3))
def test_a_feature_that_is_at_its_level_already_is_fine(version):
    response = update(("transaction.version", 2), ("group.version", 1), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert all(result.error_code == ErrorCode.NONE for result in response.results)


@pytest.mark.parametrize(
    "feature", [("transaction.version", 1), ("transaction.version", 3), ("group.version", 0), ("metadata.version", 20)]
)
def test_no_feature_goes_to_another_level(feature):
    for version in (0, 1):
        (result,) = update(feature, version=version).results
        assert (result.feature, result.error_code) == (feature[0], ErrorCode.INVALID_UPDATE_VERSION)
        assert feature[0] in result.error_message
    response = update(feature, version=2)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert feature[0] in response.error_message


def test_updates_that_contradict_each_other_are_refused():
    response = update(("transaction.version", 2), ("transaction.version", 1), version=1)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "transaction.version" in response.error_message


def test_an_upgrade_of_no_known_type_is_refused():
    (result,) = update(("transaction.version", 2, False, 9), version=1).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


# Access rules


@pytest.mark.parametrize("version", range(1, 4))
def test_there_are_no_access_rules(version):
    described = answer(describe_acls, DescribeAclsRequest(), version)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert described.error_message
    created = answer(create_acls, CreateAclsRequest((AclCreation(), AclCreation())), version)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = answer(delete_acls, DeleteAclsRequest((DeleteAclsFilter(),)), version)
    assert [result.error_code for result in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


# Credentials


def test_nobody_has_credentials():
    for everybody in (None, ()):
        described = answer(describe_user_scram_credentials, DescribeUserScramCredentialsRequest(everybody))
        assert (described.error_code, described.error_message, described.results) == (ErrorCode.NONE, None, ())
    request = DescribeUserScramCredentialsRequest((UserName("ada"), UserName("ben"), UserName("ada")))
    results = answer(describe_user_scram_credentials, request).results
    outcomes = [(result.user, result.error_code) for result in results]
    assert outcomes == [("ada", ErrorCode.RESOURCE_NOT_FOUND), ("ben", ErrorCode.RESOURCE_NOT_FOUND)]


def test_nobody_is_given_credentials():
    upsertions = (ScramCredentialUpsertion("ada", 1), ScramCredentialUpsertion("ben", 1))
    request = AlterUserScramCredentialsRequest((ScramCredentialDeletion("ada", 2),), upsertions)
    results = answer(alter_user_scram_credentials, request).results
    outcomes = [(result.user, result.error_code) for result in results]
    assert outcomes == [("ada", ErrorCode.SECURITY_DISABLED), ("ben", ErrorCode.SECURITY_DISABLED)]


@pytest.mark.parametrize("version", range(2))
def test_no_handshake_is_made_on_a_plain_listener(version):
    response = answer(sasl_handshake, SaslHandshakeRequest("PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())


@pytest.mark.parametrize("version", range(3))
def test_nobody_authenticates_on_a_plain_listener(version):
    response = answer(sasl_authenticate, SaslAuthenticateRequest(b"\0ada\0secret"), version)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message
