"""Ray actors: thin shells round the machines of `eagleray.broker`."""
