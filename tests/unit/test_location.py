"""Which cluster is meant, as a table: what was given, what is there, and what is chosen or said."""

import pytest

from eagleray.client.errors import ClusterNotFound, EaglerayError, InvalidArgument
from eagleray.location import COMMAND, PROGRAM, Candidate, Place, check_name, choose, where_to_look

HEAD = "10.0.0.1:6379"
JOINED = "127.0.0.1:7000"


def looked(address=None, joined=None, files=(), **environment):
    return where_to_look(address, joined, environment, lambda path: path in files)


PLACES = [
    # What is given comes before all else.
    ({"address": HEAD}, (Place.RAY, HEAD)),
    ({"address": HEAD, "joined": JOINED, "RAY_ADDRESS": "other:1"}, (Place.RAY, HEAD)),
    ({"address": "head.example.com:6379"}, (Place.RAY, "head.example.com:6379")),
    ({"address": "[::1]:6379"}, (Place.RAY, "[::1]:6379")),
    ({"address": "/etc/eagleray/contact"}, (Place.CONTACT_FILE, "/etc/eagleray/contact")),
    ({"address": "./contact", "joined": JOINED}, (Place.CONTACT_FILE, "./contact")),
    ({"address": "contact", "files": ["contact"]}, (Place.CONTACT_FILE, "contact")),
    ({"address": "auto"}, (Place.ANY_RAY_HERE, "")),
    ({"address": "auto", "joined": JOINED}, (Place.JOINED_RAY, JOINED)),
    # Then the Ray that was joined, then the environment.
    ({"joined": JOINED, "RAY_ADDRESS": HEAD}, (Place.JOINED_RAY, JOINED)),
    ({"RAY_ADDRESS": HEAD}, (Place.RAY, HEAD)),
    ({"EAGLERAY_ADDRESS": "mine:1", "RAY_ADDRESS": HEAD}, (Place.RAY, "mine:1")),
    ({"EAGLERAY_ADDRESS": "", "RAY_ADDRESS": HEAD}, (Place.RAY, HEAD)),
    ({"RAY_ADDRESS": "auto"}, (Place.ANY_RAY_HERE, "")),
    ({"EAGLERAY_ADDRESS": "/etc/contact"}, (Place.CONTACT_FILE, "/etc/contact")),
    # Then what was started here.
    ({}, (Place.THIS_MACHINE, "")),
    ({"RAY_ADDRESS": ""}, (Place.THIS_MACHINE, "")),
]


@pytest.mark.parametrize(("given", "place"), PLACES)
def test_first_of_the_places_decides(given, place):
    assert looked(**given) == place


@pytest.mark.parametrize(
    "address", ["garbage", "", "host:", ":6379", "host:0", "host:65536", "host:abc", "ray://host:10001", "a b:1", 6379]
)
def test_address_that_is_none_is_refused_with_what_was_expected(address):
    with pytest.raises(InvalidArgument, match="expected HOST:PORT of the head of a Ray cluster, auto, or the path"):
        looked(address)


@pytest.mark.parametrize("name", [None, "default", "a", "a.b_c-9", "x" * 64])
def test_name_of_a_cluster_is_taken(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "a b", "a/b", "x" * 65, 5])
def test_name_that_no_cluster_has_is_refused(name):
    with pytest.raises(InvalidArgument, match="expected up to 64 letters"):
        check_name(name)


A, B, OTHER_A = Candidate("a", "127.0.0.1:1"), Candidate("b", "127.0.0.1:2"), Candidate("a", "127.0.0.1:3")
SAME_RAY = Candidate("c", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("name", "candidates", "chosen"),
    [
        (None, [A], A),
        ("a", [A], A),
        ("b", [A, B], B),
        ("a", [A, A], A),
    ],
)
def test_only_cluster_that_may_be_meant_is_chosen(name, candidates, chosen):
    assert choose(name, candidates, PROGRAM, where="here") == chosen


SAID = [
    (None, [], PROGRAM, "there is no Eagleray cluster here."),
    ("x", [], PROGRAM, "there is no Eagleray cluster named 'x' here."),
    ("x", [A], PROGRAM, "there is no Eagleray cluster named 'x' here; there is a (name='a')."),
    ("x", [A], COMMAND, "there is no Eagleray cluster named 'x' here; there is a (--name a)."),
    (
        None,
        [B, A],
        PROGRAM,
        "2 clusters here may be meant: a (name='a', address='127.0.0.1:1'), b (name='b', address='127.0.0.1:2').",
    ),
    (
        None,
        [A, B],
        COMMAND,
        "2 clusters here may be meant: a (--name a --address 127.0.0.1:1), b (--name b --address 127.0.0.1:2).",
    ),
    (None, [A, SAME_RAY], PROGRAM, "2 clusters here may be meant: a (name='a'), c (name='c')."),
    (
        "a",
        [A, OTHER_A, B],
        COMMAND,
        "2 clusters here may be meant: a (--name a --address 127.0.0.1:1), a (--name a --address 127.0.0.1:3).",
    ),
]


@pytest.mark.parametrize(("name", "candidates", "words", "said"), SAID)
def test_error_lists_the_clusters_with_what_chooses_each(name, candidates, words, said):
    with pytest.raises(ClusterNotFound) as raised:
        choose(name, candidates, words, where="here")
    assert raised.value.message == said
    assert isinstance(raised.value, EaglerayError)
    assert ("--name" in raised.value.advice) is (words is COMMAND)


def test_error_lists_clusters_elsewhere_that_are_not_candidates():
    with pytest.raises(ClusterNotFound, match=r"there is a \(name='a'\)"):
        choose(None, [], PROGRAM, where="here", others=[A])
