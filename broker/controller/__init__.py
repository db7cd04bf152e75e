"""The controller: topics, their settings, who leads their partitions, and at which epoch."""
