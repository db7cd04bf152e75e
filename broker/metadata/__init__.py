"""The cluster metadata: nodes, topics and partitions as an image, and the metadata log's records that lead to it."""
