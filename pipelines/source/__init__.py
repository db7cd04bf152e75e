"""The source of the data source `eagleray`: planning on the driver, reading in tasks."""
