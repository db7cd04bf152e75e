"""Names in certificates and what Kafka's mapping rules make of them; the examples are those of Kafka's documents."""

import pytest

from eagleray.broker.security.distinguished_names import distinguished_name
from eagleray.broker.security.principal_mapping import PrincipalMapping
from eagleray.broker.settings import InvalidConfig

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Shop,cn=Till.7", "till.7"),
        ("OU=Nameless,O=Shop", "OU=Nameless,O=Shop"),
    ],
)
def test_documented_rules_map_as_documented(name, principal):
    assert PrincipalMapping(DOCUMENTED).name_of(name) == principal


@pytest.mark.parametrize("rules", ["", "DEFAULT", " DEFAULT "])
def test_name_is_the_principal_by_default(rules):
    assert PrincipalMapping(rules).name_of("CN=a,O=b") == "CN=a,O=b"


def test_name_that_no_rule_matches_is_no_principal():
    assert PrincipalMapping("RULE:^CN=(.*),O=Shop$/$1/").name_of("CN=a,O=Other") is None


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("RULE:^CN=(.*)$/$1/U", "CN=till", "TILL"),
        ("RULE:^CN=(.*)$/$1$2/", "CN=till", "till$2"),
        ("RULE:^CN=(.*)$/$10/", "CN=till", "till0"),
        (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
        ("RULE:^CN=(.*),OU=[a,b].*$/$1/ , DEFAULT", "CN=till,OU=b", "till"),
    ],
)
def test_replacement_is_read_as_in_java(rules, name, principal):
    assert PrincipalMapping(rules).name_of(name) == principal


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "RULE:a/b/X", "default", "DEFAULT DEFAULT", "RULE:(/b/"])
def test_rule_that_cannot_be_read_is_refused(rules):
    with pytest.raises(InvalidConfig, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (((("countryName", "DE"),), (("organizationName", "Shop"),), (("commonName", "till"),)), "CN=till,O=Shop,C=DE"),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
        (((("commonName", 'Shop, "A+B"'),),), r"CN=Shop\, \"A\+B\""),
        (((("commonName", " a "),),), r"CN=\ a\ "),
        (((("commonName", "#1"),),), r"CN=\#1"),
        (((("commonName", "a,O=Shop"),),), r"CN=a\,O=Shop"),
        (((("emailAddress", "a@b"),),), "1.2.840.113549.1.9.1=#1603614062"),
        (((("serialNumber", "7"),),), "serialNumber=7"),
        ((), ""),
    ],
)
def test_name_is_written_as_in_java(subject, text):
    assert distinguished_name(subject) == text
