"""The partition leader: Produce, Fetch, transaction markers, and the verification of transactions (KIP-890)."""
