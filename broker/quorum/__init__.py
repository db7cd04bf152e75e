"""The Raft quorum that keeps the metadata log: its election, its replication and what is committed."""
