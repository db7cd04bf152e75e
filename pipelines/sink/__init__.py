"""The writing half of the data source: branches in tasks, one commit on the driver."""
