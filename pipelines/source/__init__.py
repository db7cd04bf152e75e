"""The reading half of the data source: planning on the driver, reading in tasks."""
