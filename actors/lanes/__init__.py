"""How nodes and clients reach a node: in the same process, by a connection of our own, or by an actor call."""
