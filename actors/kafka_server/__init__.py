"""Kafka's wire protocol on a node's listener: connections, requests in flight, and one handler for each API."""
