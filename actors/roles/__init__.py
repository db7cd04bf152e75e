"""The roles of a broker: one file for each, a thin actor round a state machine of the broker."""
