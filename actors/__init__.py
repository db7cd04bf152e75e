"""Ray actors: thin roles round the state machines of `eagleray.broker`."""
