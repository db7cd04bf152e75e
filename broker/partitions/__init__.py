"""Leading partitions: produce, fetch, markers, and the verification of transactions."""
