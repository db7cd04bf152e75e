"""The controller: topics, their settings, the leaders of their partitions, and at which epoch they lead."""
