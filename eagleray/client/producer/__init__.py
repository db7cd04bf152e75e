"""The producer: records in batches on their way to the leaders of partitions, and the guarantees that it gives."""
