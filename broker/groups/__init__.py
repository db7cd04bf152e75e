"""Groups: their offsets, committed alone or in a transaction, and their members, of one kind or another."""
