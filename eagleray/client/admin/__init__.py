"""The admin: topics, records, replicas, transactions and groups."""
