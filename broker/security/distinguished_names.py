"""The name in a certificate as one text, in the form of RFC 2253, as Java and Kafka write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

RelativeName: TypeAlias = Sequence[tuple[str, str]]
"""One part of a name; nearly always of one attribute, which has a long name and a value."""

_KEYWORDS: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The attributes that RFC 2253 has a keyword for."""

_EMAIL_ADDRESS: Final = "1.2.840.113549.1.9.1"
_IA5_STRING: Final = 0x16
_SHORT_LENGTH: Final = 0x7F
_ESCAPED: Final = frozenset(',+"\\<>;')


def distinguished_name(subject: Sequence[RelativeName]) -> str:
    """Return the text of a name whose parts come in the order of the certificate; the text has them backwards."""
    return ",".join("+".join(_attribute(*each) for each in part) for part in reversed(subject))


def _attribute(name: str, value: str) -> str:
    if name == "emailAddress" and value.isascii() and len(value) <= _SHORT_LENGTH:
        # RFC 2253 has no keyword for it, so that Java writes its number, and the value as it is encoded.
        return f"{_EMAIL_ADDRESS}=#{bytes([_IA5_STRING, len(value)]).hex()}{value.encode().hex()}"
    return f"{_KEYWORDS.get(name, name)}={_escaped(value)}"


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in value)
    if value.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if value.endswith(" ") and len(value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped
