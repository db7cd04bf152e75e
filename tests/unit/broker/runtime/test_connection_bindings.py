"""Which connection may change something, and what it takes to become that connection."""

from itertools import count

import pytest

from eagleray.broker.runtime.connection_bindings import MOST_ASKED, NO_QUESTION, ClientConnection, ConnectionBindings

ID = "checkout-1"
COMMIT = frozenset({"commit"})


class Asker:
    """Bindings, and connections that say of each question whether they have heard it."""

    def __init__(self) -> None:
        self.bindings: ConnectionBindings[str] = ConnectionBindings(count(NO_QUESTION + 1))
        self.heard: dict[int, int] = {}

    def ask(self, connection: int, *, heard: bool = True, asked_for: frozenset[str] = COMMIT, name: str = ID) -> bool:
        """Ask for admission; a question is heard at once, and said to be heard where `heard`."""
        client = ClientConnection(connection, self.heard.get(connection, NO_QUESTION) if heard else NO_QUESTION)
        question = self.bindings.question_to(name, client, asked_for)
        if question != NO_QUESTION:
            self.heard[connection] = question
        return question == NO_QUESTION


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_bound_connection_is_admitted(asker: Asker):
    asker.bindings.bind(ID, 1)

    assert asker.ask(1)
    assert asker.ask(1)


def test_connection_is_asked_once_where_there_is_no_binding(asker: Asker):
    assert not asker.ask(1)
    assert asker.ask(1)
    assert asker.bindings.is_bound(ID, 1)


def test_other_connection_takes_the_binding_over_when_it_repeats_its_request(asker: Asker):
    asker.bindings.bind(ID, 1)

    assert not asker.ask(2)
    assert asker.bindings.is_bound(ID, 1), "a question alone changes nothing"
    assert asker.ask(2)
    assert not asker.ask(1), "the connection that was bound before is asked like any other"


def test_copy_that_was_read_before_the_question_was_written_is_no_answer(asker: Asker):
    assert not asker.ask(1)
    assert not asker.ask(1, heard=False)
    assert not asker.ask(1, heard=False)
    assert asker.ask(1)


def test_question_that_was_heard_long_ago_does_not_count_for_the_latest(asker: Asker):
    """A connection that was bound once has heard a question. Two late copies on it are asked both."""
    assert not asker.ask(1)
    heard_long_ago = asker.heard[1]
    assert asker.ask(1)
    assert not asker.ask(2)
    assert asker.ask(2)

    for _ in range(2):
        assert asker.bindings.question_to(ID, ClientConnection(1, heard_long_ago), COMMIT) != NO_QUESTION


def test_another_request_of_the_same_connection_is_no_answer(asker: Asker):
    assert not asker.ask(1, asked_for=frozenset({"orders-0"}))
    assert not asker.ask(1, asked_for=COMMIT)
    assert not asker.ask(1, asked_for=frozenset({"abort"}))
    assert asker.ask(1, asked_for=frozenset({"abort"}))


def test_request_that_asks_for_more_than_the_one_that_it_repeats_is_an_answer(asker: Asker):
    assert not asker.ask(1, asked_for=frozenset({"orders-0"}))
    assert asker.ask(1, asked_for=frozenset({"orders-0", "orders-1"}))


def test_closed_connection_leaves_nothing_behind(asker: Asker):
    asker.bindings.bind(ID, 1)
    asker.ask(2)
    asker.ask(3, name="checkout-2")

    for connection in (1, 2, 3, 4):
        asker.bindings.closed(connection)

    assert len(asker.bindings) == 0
    assert not asker.ask(1)


def test_closing_of_an_old_connection_does_not_touch_the_new_binding(asker: Asker):
    asker.bindings.bind(ID, 1)
    asker.ask(2)
    asker.ask(2)

    asker.bindings.closed(1)

    assert asker.ask(2)


def test_forgotten_name_has_every_connection_asked(asker: Asker):
    asker.bindings.bind(ID, 1)
    asker.ask(2)

    asker.bindings.forget(ID)

    assert len(asker.bindings) == 0
    assert not asker.ask(1)
    assert not asker.ask(2), "what it has heard was about a binding that is forgotten"


def test_oldest_question_gives_way_to_one_too_many(asker: Asker):
    connections = range(1, MOST_ASKED + 2)
    for connection in connections:
        assert not asker.ask(connection)

    assert not asker.ask(1)
    assert asker.ask(MOST_ASKED + 1)


def test_repeated_question_is_the_youngest(asker: Asker):
    for connection in range(1, MOST_ASKED + 1):
        asker.ask(connection)
    asker.ask(1, heard=False)

    asker.ask(MOST_ASKED + 1)

    assert asker.ask(1)


def test_names_do_not_mind_each_other(asker: Asker):
    asker.bindings.bind(ID, 1)

    assert not asker.ask(1, name="checkout-2")
    assert asker.ask(1)


def test_questions_of_a_later_shard_go_on_counting(asker: Asker):
    """Another shard of the same coordinator does not take what was heard of the first one for an answer."""
    numbers = count(NO_QUESTION + 1)
    first, second = ConnectionBindings[str](numbers), ConnectionBindings[str](numbers)
    heard = first.question_to(ID, ClientConnection(1), COMMIT)
    assert second.question_to(ID, ClientConnection(1, heard), COMMIT) != NO_QUESTION
    assert second.question_to(ID, ClientConnection(1, heard), COMMIT) != NO_QUESTION
