"""docs/states.md is drawn from the tables of the state machines."""

from types import ModuleType

import pytest

from eagleray.broker.transactions.states import VALID_PREVIOUS
from tests.support.scripts import check_document, load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("state_diagrams")


def test_document_is_up_to_date():
    check_document("state_diagrams")


def test_every_entry_of_a_table_is_an_arrow(script: ModuleType):
    drawn = script.render_diagram(script.TRANSACTION)
    assert drawn.count("-->") == 1 + sum(map(len, VALID_PREVIOUS.values()))
    assert "    Ongoing --> PrepareCommit: EndTxn, CompleteTransaction or a resolver, commit\n" in drawn


def test_resolving_transaction_is_ended_by_its_token_alone(script: ModuleType):
    rows = script.render_prepared().splitlines()
    assert "| Prepared | Invalid | Decide | Refused | Decide | Decide |" in rows
    assert "| Resolving | Refused | Refused | - | Decide | Decide |" in rows


def test_late_copy_on_another_connection_is_asked_and_changes_nothing(script: ModuleType):
    assert "| another connection | Asked | Carried out | Asked |\n" in script.render_bindings()
    assert "| this connection | Carried out | Carried out | Carried out |\n" in script.render_bindings()


def test_label_of_a_transition_that_is_gone_is_an_error(script: ModuleType):
    diagram = script.TRANSACTION._replace(labels={("Dead", "Ongoing"): "never"})
    with pytest.raises(ValueError, match="has no transitions"):
        script.render_diagram(diagram)


def test_lines_are_no_longer_than_a_reader_wants(script: ModuleType):
    assert max(map(len, script.render().splitlines())) <= script.WIDTH
