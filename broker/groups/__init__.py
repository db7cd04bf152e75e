"""Consumer groups: their offsets, committed alone or in a transaction."""
