"""Pools: transactions that are open side by side under one name, each in a slot that has a producer of its own."""
