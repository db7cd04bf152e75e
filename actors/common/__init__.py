"""What a node is started with, and what all of its rooms use."""
