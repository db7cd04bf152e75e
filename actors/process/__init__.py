"""The process of a broker: the node on top of its roles, storage, lanes and listener, and its incarnations."""
