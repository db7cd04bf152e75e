"""The consumer: its place in a group, its positions, and its fetches from the leaders of partitions."""
