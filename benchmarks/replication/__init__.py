"""What several machines cost and give: the time until others go on when one is lost, and the price of replicas."""
