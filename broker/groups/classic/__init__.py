"""Groups with Kafka's classic protocol: members join, their leader assigns, all of them sync and send heartbeats."""
