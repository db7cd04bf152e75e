"""Groups: their offsets, committed alone or in a transaction, and their members, by one protocol or another."""
