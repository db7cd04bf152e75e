"""Metadata never go backwards: a controller that has lost some meets nodes that know more, and does not rule them."""

import pytest

from eagleray.broker.controller.events import FollowMetadata
from eagleray.broker.metadata.changes import ProducerIdsTaken, TermBegan
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.positions import TERMS_KEPT, MetadataPosition
from eagleray.protocol.errors import ErrorCode
from tests.support.controllers import PLAN, ControllerDriver

STALE = ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.fixture
def driver():
    """A controller in its fifth term, with its nodes and a topic."""
    driver = ControllerDriver()
    begin_term(driver, 5)
    driver.plan()
    for node in PLAN:
        assert driver.register(node).error_code is ErrorCode.NONE
    driver.create("orders", 1)
    return driver


def begin_term(driver, term, lost=0):
    """Begin another controller, whose log has lost its newest appends."""
    del driver.batches[len(driver.batches) - lost :]
    driver.term = term
    driver.restart()


def test_controller_notes_its_term_before_its_first_change(driver):
    assert driver.image.terms[0] == (type(driver.image.terms[0]))(5, 0)
    assert driver.image.term == 5
    version = driver.image.version
    begin_term(driver, 6)
    assert driver.image.position == MetadataPosition(driver.image.cluster_id, 5, version)
    driver.create("payments", 1)
    assert driver.image.term == 6
    assert driver.replayed() == driver.image


def test_nodes_that_know_no_more_than_the_log_register(driver):
    known = driver.image.position
    begin_term(driver, 6)
    assert driver.register(PLAN[2], 2, position=known).error_code is ErrorCode.NONE
    driver.create("payments", 1)
    assert driver.register(PLAN[3], 2, position=known).error_code is ErrorCode.NONE
    assert driver.stopped == []


def test_node_that_knows_what_the_log_has_lost_does_not_register(driver):
    known = driver.image.position
    begin_term(driver, 6, lost=1)
    version = driver.image.version
    answer = driver.register(PLAN[2], 2, position=known)
    assert (answer.error_code, answer.image) == (STALE, None)
    assert f"knows the metadata up to version {known.version} of term 5" in answer.message
    assert "it has lost some" in answer.message
    assert driver.image.version == version, "nothing was changed"
    assert driver.ask(FollowMetadata, known.version, 1000, known.term).error_code is STALE


def test_node_does_not_register_where_the_log_has_lost_some_and_has_grown_beyond_what_it_knows(driver):
    """The versions alone would tell nothing."""
    known = driver.image.position
    begin_term(driver, 6, lost=1)
    for number in range(10):
        driver.create(f"other-{number}", 1)
    assert driver.image.version > known.version
    assert driver.register(PLAN[2], 2, position=known).error_code is STALE
    assert driver.ask(FollowMetadata, known.version, 1000, known.term).error_code is STALE
    begin_term(driver, 7)
    driver.create("later", 1)
    assert driver.register(PLAN[2], 2, position=known).error_code is STALE


def test_controller_of_which_most_nodes_know_more_stops_ruling(driver):
    known = driver.image.position
    begin_term(driver, 6, lost=1)
    for node in PLAN[:2]:
        driver.register(node, 2, position=known)
        driver.register(node, 2, position=known)
    assert driver.stopped == [], "it is half of them"
    driver.register(PLAN[2], 2, position=known)
    (reason,) = driver.stopped
    assert reason.startswith("nodes 0, 1, 2, most of those that are planned, know more")


def test_only_voter_stops_ruling_at_the_first_node_that_knows_more(driver):
    """No other voter can have what its log has lost."""
    known = driver.image.position
    driver.is_only_voter = True
    begin_term(driver, 6, lost=1)
    driver.register(PLAN[2], 2, position=known)
    (reason,) = driver.stopped
    assert reason.startswith("node 2 knows more of the metadata than this log")
    assert "eagleray storage restore-metadata" in reason


def test_node_that_has_another_disk_since_does_not_count(driver):
    known = driver.image.position
    begin_term(driver, 6, lost=1)
    for node in PLAN[:2]:
        driver.register(node, 2, position=known)
    assert driver.register(PLAN[1], 3).error_code is ErrorCode.NONE
    driver.register(PLAN[2], 2, position=known)
    assert driver.stopped == []


def test_node_of_another_cluster_is_refused_and_says_nothing_of_this_one(driver):
    for node in PLAN:
        answer = driver.register(node, 2, position=MetadataPosition("another", 99, 10**6))
        assert answer.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert "belongs to cluster another; expected cluster" in answer.message
    assert driver.stopped == []


def image_of(*terms):
    """An image of controllers that have each made three changes."""
    return EMPTY_IMAGE.apply(
        [change for term in terms for change in (TermBegan(term), ProducerIdsTaken(term), ProducerIdsTaken(term))]
    )


@pytest.mark.parametrize(
    ("term", "version", "is_included"),
    [(0, 0, True), (1, 1, True), (1, 3, True), (1, 4, False), (3, 4, True), (2, 4, False), (3, 6, True), (3, 7, False)],
)
def test_image_includes_the_positions_that_have_led_to_it_and_no_others(term, version, is_included):
    assert image_of(1, 3).includes(MetadataPosition("", term, version)) is is_included


def test_image_of_a_log_without_terms_includes_all_of_its_versions():
    image = EMPTY_IMAGE.apply([ProducerIdsTaken(1), ProducerIdsTaken(2)])
    assert image.includes(MetadataPosition("", 0, 2))
    later = image.apply([TermBegan(7)])
    assert later.includes(image.position)
    assert not image.includes(later.position)


def test_image_assumes_what_it_does_not_remember():
    image = image_of(*range(1, TERMS_KEPT + 10))
    assert len(image.terms) == TERMS_KEPT
    assert image.includes(MetadataPosition("", 1, 3))
    assert image.includes(image.position)
    assert not image.includes(MetadataPosition("", TERMS_KEPT, image.version))
