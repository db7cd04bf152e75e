"""Replication: what leaders push, what followers keep, and what the controller decides about both."""
