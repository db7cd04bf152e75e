"""A load test that drives the broker from Spark executors and Ray tasks at once."""
