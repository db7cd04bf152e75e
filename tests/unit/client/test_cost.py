"""A thousand producers fit into one process."""

from tests.support.client_clock import run_in_virtual_time
from tests.support.client_cost import bytes_of_an_idle_producer


def test_an_idle_producer_holds_less_than_five_kilobytes():
    assert run_in_virtual_time(bytes_of_an_idle_producer) < 5 * 1024
