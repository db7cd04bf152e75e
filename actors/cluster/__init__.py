"""Everything that knows Ray: starting, supervising, finding and extending a cluster."""
