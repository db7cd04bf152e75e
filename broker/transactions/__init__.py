"""Transactions: the coordinator's states, its decisions, and the records that they are kept in."""
