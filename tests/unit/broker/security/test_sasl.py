"""The state machine of SASL: what each step leads to, and that it says nothing about who exists."""

import base64
import hashlib
import hmac

import pytest

from eagleray.broker.security.sasl import (
    MECHANISMS,
    Authenticated,
    Continue,
    Failed,
    SaslServer,
    SaslState,
    VerifyPassword,
)
from eagleray.broker.security.scram import ScramMechanism, credential_of_salted, is_password_of, salted
from eagleray.protocol.errors import ErrorCode

SHA_256, SHA_512 = ScramMechanism
SALT = b"a salt"
ADA = {
    mechanism: credential_of_salted(mechanism, SALT, salted(mechanism, "wonder", SALT, 4096), 4096)
    for mechanism in ScramMechanism
}
USERS = {"ada": ADA, "eve": ADA}


def server(enabled=MECHANISMS):
    return SaslServer(enabled, lambda user: USERS.get(user, {}), b"secret")


def proof_for(answer, password, user="ada", mechanism=SHA_256):
    """What a client says last, by the server's first answer."""
    fields = dict(part.split("=", 1) for part in answer.decode().split(","))
    of_password = salted(mechanism, password, base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(of_password, b"Client Key", mechanism.digest)
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"n={user},r=mine,{answer.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(mechanism.digest, key).digest(), signed, mechanism.digest)
    proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def scram(sasl, password="wonder", user="ada", mechanism=SHA_256):
    assert sasl.handshake(mechanism) is ErrorCode.NONE
    first = sasl.take(f"n,,n={user},r=mine".encode(), "theirs")
    assert isinstance(first, Continue)
    return sasl.take(proof_for(first.answer, password, user, mechanism), "unused")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_right_password_authenticates_by_scram(mechanism):
    step = scram(server(), mechanism=mechanism)
    assert isinstance(step, Authenticated)
    assert step.user == "ada"
    assert step.answer.startswith(b"v=")


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong"), ("nobody", "wonder"), ("nobody", "")])
def test_wrong_password_and_unknown_user_fail_alike(user, password):
    sasl = server()
    assert scram(sasl, password, user) == Failed("the password is wrong, or there is no such user", user)
    assert sasl.state is SaslState.FAILED
    assert sasl.handshake(SHA_256) is ErrorCode.ILLEGAL_SASL_STATE, "a client that has failed begins with a connection"
    assert sasl.take(b"n,,n=ada,r=mine", "theirs").error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_unknown_user_has_the_same_salt_each_time():
    def salt_of(user):
        sasl = server()
        sasl.handshake(SHA_256)
        return sasl.take(f"n,,n={user},r=mine".encode(), "theirs").answer

    assert salt_of("nobody") == salt_of("nobody")
    assert salt_of("nobody") != salt_of("noone")


def test_password_of_plain_is_verified_elsewhere():
    sasl = server()
    sasl.handshake("PLAIN")
    step = sasl.take(b"\0ada\0wonder", "")
    assert isinstance(step, VerifyPassword)
    ((mechanism, credential),) = step.candidates
    assert is_password_of(mechanism, credential, "wonder")
    assert "wonder" not in repr(step)
    assert sasl.take(b"\0ada\0wonder", "").error_code is ErrorCode.ILLEGAL_SASL_STATE, "one at a time"


@pytest.mark.parametrize("is_right", [True, False])
def test_verified_password_of_plain_decides(is_right):
    sasl = server()
    sasl.handshake("PLAIN")
    sasl.take(b"ada\0ada\0wonder", "")
    step = sasl.password_verified(is_right=is_right)
    expected = Authenticated("ada") if is_right else Failed("the password is wrong, or there is no such user", "ada")
    assert step == expected


def test_unknown_user_costs_plain_as_much():
    sasl = server()
    sasl.handshake("PLAIN")
    ((mechanism, credential),) = sasl.take(b"\0nobody\0wonder", "").candidates
    assert (mechanism, credential.iterations) == (SHA_512, 4096)
    assert not is_password_of(mechanism, credential, "wonder")


@pytest.mark.parametrize(
    "data", [b"", b"ada\0wonder", b"\0ada\0", b"\0\0wonder", b"eve\0ada\0wonder", b"\0\xff\0wonder", b"\0a\0b\0c"]
)
def test_plain_that_cannot_be_meant_fails(data):
    sasl = server()
    sasl.handshake("PLAIN")
    assert isinstance(sasl.take(data, ""), Failed)


@pytest.mark.parametrize("data", [b"n,a=eve,n=ada,r=mine", b"n,,n=ada,r=mine,tokenauth=true", b"y,,n=ada,r=mine"])
def test_scram_for_another_user_or_by_a_token_fails(data):
    sasl = server()
    sasl.handshake(SHA_256)
    assert isinstance(sasl.take(data, "theirs"), Failed)


def test_mechanism_that_is_not_enabled_is_refused():
    assert server((str(SHA_512),)).handshake(SHA_256) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert server().handshake("GSSAPI") is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_message_before_a_handshake_is_out_of_place():
    assert server().take(b"\0ada\0wonder", "").error_code is ErrorCode.ILLEGAL_SASL_STATE


def test_client_authenticates_again_as_the_same_user_by_the_same_mechanism():
    sasl = server()
    scram(sasl)
    assert isinstance(scram(sasl), Authenticated)
    assert sasl.handshake(SHA_512) is ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.handshake(SHA_256) is ErrorCode.NONE
    first = sasl.take(b"n,,n=eve,r=mine", "theirs")
    step = sasl.take(proof_for(first.answer, "wonder", "eve"), "")
    assert isinstance(step, Failed)
    assert "authenticated as 'ada' before" in step.reason
