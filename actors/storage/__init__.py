"""The logs of a node on its disk, and their replicas."""
