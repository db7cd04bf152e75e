"""The credentials of users in the metadata."""

from __future__ import annotations

from typing import Final

from eagleray.broker.security.scram import ScramCredential, ScramMechanism

MECHANISM_NUMBERS: Final = {ScramMechanism.SHA_256: 1, ScramMechanism.SHA_512: 2}
"""The numbers of mechanisms in records and requests; they are Kafka's."""

MECHANISMS_BY_NUMBER: Final = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}


def by_mechanism(credentials: dict[int, ScramCredential]) -> dict[ScramMechanism, ScramCredential]:
    """Return a user's credentials by mechanism; those of a later release's mechanisms are left out."""
    return {
        MECHANISMS_BY_NUMBER[number]: credential
        for number, credential in credentials.items()
        if number in MECHANISMS_BY_NUMBER
    }
