"""The token of a prepared transaction as a text: it comes back as it went, and nothing else is taken for one."""

import pickle
import re

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.client.errors import InvalidArgument
from eagleray.client.producer.prepared import PreparedTransaction

NAMES = ["billing-1", "a", "a.b.1.2", "prepared-v1.a.1.2", "~", "a b", "später/1", "x:y?z=%20&'\"", "\x00\n", "~20"]


def a_token(name="billing-1", producer_id=42, epoch=7):
    return PreparedTransaction(name, ProducerIdentity(producer_id, epoch))


def test_text_is_readable():
    assert str(a_token()) == "prepared-v1.billing-1.42.7"


@pytest.mark.parametrize("name", NAMES)
def test_text_comes_back_as_the_same_token(name):
    token = a_token(name)
    assert PreparedTransaction.parse(str(token)) == token
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", str(token))


def test_tokens_of_different_transactions_have_different_texts():
    tokens = [a_token(name, number, epoch) for name in NAMES for number in (0, 2**63 - 1) for epoch in (0, 2**15 - 1)]
    assert len({str(token) for token in tokens}) == len(tokens)
    assert all(PreparedTransaction.parse(str(token)) == token for token in tokens)


def test_token_travels_and_stays_as_it_is():
    token = pickle.loads(pickle.dumps(a_token()))
    assert token == a_token()
    with pytest.raises(AttributeError):
        token.transactional_id = "another"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42:7",
        "billing-1",
        "prepared-v2.billing-1.42.7",
        "prepared-v1..42.7",
        "prepared-v1.billing-1.42",
        "prepared-v1.billing-1.042.7",
        "prepared-v1.billing-1.42.-1",
        "prepared-v1.billing-1.42.32768",
        "prepared-v1.billing-1.9223372036854775808.7",
        " prepared-v1.billing-1.42.7",
        "prepared-v1.billing-1.42.7\n",
        "prepared-v1.billing 1.42.7",
        "prepared-v1.~62illing.42.7",
        "prepared-v1.~ff.42.7",
        "prepared-v1.~C3~BC.42.7",
        "prepared-v1.a~.42.7",
        None,
        b"prepared-v1.billing-1.42.7",
    ],
)
def test_every_other_text_is_refused_with_what_was_expected(text):
    with pytest.raises(InvalidArgument, match=r"expected 'prepared-v1\.TRANSACTIONAL-ID\.PRODUCER-ID\.EPOCH'"):
        PreparedTransaction.parse(text)
