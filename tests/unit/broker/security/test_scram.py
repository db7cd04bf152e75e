"""SCRAM by the examples of its RFCs, and what a client may send instead."""

import base64

import pytest

from eagleray.broker.security.scram import (
    ScramCredential,
    ScramError,
    ScramExchange,
    ScramMechanism,
    credential_of_salted,
    is_password_of,
    parse_client_first,
    pretended_credential,
    salted,
)

SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
LAST = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def credential(password="pencil", mechanism=SHA_256):
    return credential_of_salted(mechanism, SALT, salted(mechanism, password, SALT, 4096), 4096)


def exchange(of=None):
    return ScramExchange(SHA_256, of or credential(), parse_client_first(FIRST), SERVER_NONCE)


def test_example_of_rfc_7677_goes_as_it_says():
    begun = exchange()
    assert begun.answer == f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert begun.finish(LAST) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_wrong_password_proves_nothing():
    with pytest.raises(ScramError, match="the password is wrong, or there is no such user"):
        exchange(credential("pencils")).finish(LAST)


def test_pretended_credential_says_the_same_as_a_wrong_password():
    pretended = pretended_credential(SHA_256, "user", b"secret")
    assert (len(pretended.stored_key), pretended.iterations) == (32, 4096)
    assert pretended == pretended_credential(SHA_256, "user", b"secret")
    assert pretended.salt != pretended_credential(SHA_256, "other", b"secret").salt
    assert pretended.salt != pretended_credential(SHA_256, "user", b"another").salt
    with pytest.raises(ScramError, match="the password is wrong, or there is no such user"):
        exchange(pretended).finish(LAST)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_password_is_verified_against_a_credential(mechanism):
    of = credential(mechanism=mechanism)
    assert is_password_of(mechanism, of, "pencil")
    assert not is_password_of(mechanism, of, "Pencil")


def test_credential_is_not_shown():
    text = repr(ScramCredential(b"salt", b"stored", b"server", 4096))
    assert text == "ScramCredential(iterations=4096, the rest is secret)"


def test_name_may_have_what_is_escaped():
    first = parse_client_first(b"n,a==2Cada=3D,n==2Cada=3D,r=x")
    assert (first.user, first.authorization_id) == (",ada=", ",ada=")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"y,,n=a,r=b", b"p=tls-unique,,n=a,r=b", b"n,x,n=a,r=b", b"n,,r=b,n=a", b"n,,n=a", b"n,,n=,r=b",
     b"n,,n=a,r=", b"n,,n=a=2D,r=b", b"n,,n=a=,r=b"],
)  # fmt: skip
def test_first_message_that_is_none_is_refused(data):
    with pytest.raises(ScramError):
        parse_client_first(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        LAST.replace(b"biws", b"eSws"),
        LAST.replace(b"biws", b"!"),
        LAST.replace(b"EkqO%", b"EkqOx"),
        LAST.rpartition(b",")[0],
        LAST.rpartition(b"=")[0][:-4],
        LAST + b"AAAA",
        b"c=biws,p=dHzb",
    ],
)
def test_last_message_that_proves_nothing_is_refused(data):
    with pytest.raises(ScramError):
        exchange().finish(data)
