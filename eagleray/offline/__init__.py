"""Looking at data directories that no node has open, and mending them: what `eagleray storage` stands on."""
