"""Whatever a client sends of SASL, each message is answered or fails, and only a proof authenticates."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.security.sasl import (
    MECHANISMS,
    Authenticated,
    Continue,
    Failed,
    SaslServer,
    SaslState,
    VerifyPassword,
)
from eagleray.broker.security.scram import ScramMechanism, pretended_credential
from eagleray.protocol.errors import ErrorCode

CREDENTIALS = {each: pretended_credential(each, "ada", b"a secret that no message knows") for each in ScramMechanism}

PIECES = st.sampled_from(
    [b"n,,", b"n=ada", b"n=", b",", b"r=mine", b"r=minetheirs", b"c=biws", b"p=", b"p=AAAA", b"=2C", b"=", b"a=ada",
     b"\0", b"ada", b"wonder", b"\xff", b"tokenauth=true", b"i=4096", b"y,,"]
)  # fmt: skip
MESSAGES = st.one_of(st.binary(max_size=64), st.lists(PIECES, max_size=8).map(b"".join))
STEPS = st.lists(st.one_of(st.sampled_from([*MECHANISMS, "GSSAPI", ""]), MESSAGES), max_size=12)


@given(STEPS)
def test_no_message_authenticates_without_a_proof(steps):
    sasl = SaslServer(MECHANISMS, lambda user: CREDENTIALS if user == "ada" else {}, b"secret")
    for step in steps:
        before = sasl.state
        if isinstance(step, str):
            agreed = sasl.handshake(step) is ErrorCode.NONE
            assert agreed is (before is SaslState.HANDSHAKE and step in MECHANISMS)
            continue
        outcome = sasl.take(step, "theirs")
        assert not isinstance(outcome, Authenticated)
        if isinstance(outcome, VerifyPassword):
            outcome = sasl.password_verified(is_right=False)
        if isinstance(outcome, Continue):
            assert (before, sasl.state) == (SaslState.FIRST_MESSAGE, SaslState.LAST_MESSAGE)
        else:
            assert isinstance(outcome, Failed)
            assert sasl.state is SaslState.FAILED
