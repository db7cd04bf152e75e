"""A prepare is one append to the transaction log, which the benchmark counts."""

from benchmarks.prepare import WAYS, measure


async def test_prepare_is_one_append_to_the_transaction_log():
    found = await measure(rounds=2, transactions=5)
    commits, prepares = ({costs[:2] for costs in found[way]} for way in WAYS)
    assert (commits, prepares) == ({(2, 2)}, {(3, 3)})
