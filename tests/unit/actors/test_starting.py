"""What a cluster tells others to connect to."""

import pytest

from eagleray.actors import starting


@pytest.mark.parametrize(
    ("listens_at", "advertises"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("broker.example.com", "broker.example.com"),
        (None, "the Ray node"),
        ("", "the Ray node"),
        ("0.0.0.0", "the Ray node"),
        ("::", "the Ray node"),
    ],
)
def test_nobody_is_told_an_address_that_stands_for_all(monkeypatch, listens_at, advertises):
    monkeypatch.setattr(starting, "address_of_this_node", lambda: "the Ray node")
    assert starting.advertised_for(listens_at) == advertises
