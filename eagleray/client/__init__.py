"""Producers, consumers and the admin, behind the names that an application imports.

The asyncio clients are the one implementation: `AsyncCluster` makes them over a `ClientRuntime`, which is what all
clients on one loop share. `SyncCluster` makes the same for threads, on a loop in the background. Nothing here knows how
messages travel: that is behind the `Peers` port.
"""
