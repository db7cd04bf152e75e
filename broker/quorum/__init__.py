"""The quorum that keeps the controller's metadata log: who leads it, and what of it is there for good."""
