"""What each API does with a request: one module for each API key, all of them listed in `registry`."""
