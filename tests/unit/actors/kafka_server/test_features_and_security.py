"""UpdateFeatures, and what is answered to those who ask for security that is not there."""

import pytest

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
from tests.support.cluster_in_memory import entered
from tests.support.kafka_requests import KafkaCluster

pytestmark = pytest.mark.usefixtures("virtual_time")


async def answer(request, version=-1):
    async with entered(KafkaCluster) as world:
        return await world.request(request, version=version)


# Features


async def update(*features, version):
    updates = tuple(FeatureUpdateKey(*feature) for feature in features)
    return await answer(UpdateFeaturesRequest(feature_updates=updates), version)


@pytest.mark.parametrize("version", range(3))
async def test_a_feature_that_is_at_its_level_already_is_fine(version):
    response = await update(("transaction.version", 2), ("group.version", 1), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert all(result.error_code == ErrorCode.NONE for result in response.results)


@pytest.mark.parametrize(
    "feature", [("transaction.version", 1), ("transaction.version", 3), ("group.version", 0), ("metadata.version", 20)]
)
async def test_no_feature_goes_to_another_level(feature):
    for version in (0, 1):
        (result,) = (await update(feature, version=version)).results
        assert (result.feature, result.error_code) == (feature[0], ErrorCode.INVALID_UPDATE_VERSION)
        assert feature[0] in result.error_message
    response = await update(feature, version=2)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert feature[0] in response.error_message


async def test_updates_that_contradict_each_other_are_refused():
    response = await update(("transaction.version", 2), ("transaction.version", 1), version=1)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert "transaction.version" in response.error_message


async def test_an_upgrade_of_no_known_type_is_refused():
    (result,) = (await update(("transaction.version", 2, False, 9), version=1)).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


# Access rules


@pytest.mark.parametrize("version", range(1, 4))
async def test_there_are_no_access_rules(version):
    described = await answer(DescribeAclsRequest(), version)
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert described.error_message
    created = await answer(CreateAclsRequest((AclCreation(), AclCreation())), version)
    assert [result.error_code for result in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
    deleted = await answer(DeleteAclsRequest((DeleteAclsFilter(),)), version)
    assert [result.error_code for result in deleted.filter_results] == [ErrorCode.SECURITY_DISABLED]


# Credentials


async def test_users_without_credentials_are_told_one_by_one():
    for everybody in (None, ()):
        described = await answer(DescribeUserScramCredentialsRequest(everybody))
        assert (described.error_code, described.error_message, described.results) == (ErrorCode.NONE, None, ())
    request = DescribeUserScramCredentialsRequest((UserName("ada"), UserName("ben"), UserName("ada")))
    results = (await answer(request)).results
    outcomes = [(result.user, result.error_code) for result in results]
    assert outcomes == [("ada", ErrorCode.DUPLICATE_RESOURCE), ("ben", ErrorCode.RESOURCE_NOT_FOUND)]


async def test_credentials_are_set_described_and_removed():
    password = ScramCredentialUpsertion("ada", 1, 4096, b"salt", bytes(32))
    unknown = ScramCredentialUpsertion("ben", 3, 4096, b"salt", bytes(32))
    async with entered(KafkaCluster) as world:

        async def alter(*changes):
            altered = (await world.request(AlterUserScramCredentialsRequest(*changes))).results
            return [(result.user, result.error_code) for result in altered]

        refused = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await alter((), (password, unknown)) == [("ada", ErrorCode.NONE), ("ben", refused)]
        (described,) = (await world.request(DescribeUserScramCredentialsRequest(None))).results
        assert [(info.mechanism, info.iterations) for info in described.credential_infos] == [(1, 4096)]
        removal = (ScramCredentialDeletion("ada", 1),)
        assert await alter(removal) == [("ada", ErrorCode.NONE)]
        assert await alter(removal) == [("ada", ErrorCode.RESOURCE_NOT_FOUND)]
        assert (await world.request(DescribeUserScramCredentialsRequest(None))).results == ()


@pytest.mark.parametrize("version", range(2))
async def test_no_handshake_is_made_on_a_plain_listener(version):
    response = await answer(SaslHandshakeRequest("PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())


@pytest.mark.parametrize("version", range(3))
async def test_plain_listener_refuses_authentication(version):
    response = await answer(SaslAuthenticateRequest(b"\0ada\0secret"), version)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message
