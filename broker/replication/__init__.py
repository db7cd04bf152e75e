"""Replication of a partition: the leader pushes, the followers append, and the high watermark and the ISR follow from
it.
"""
