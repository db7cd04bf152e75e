"""Kafka's messages, one frozen Struct each for all versions.

A module has the request and the response of one API, `headers` what comes before them, `transaction_log`,
`consumer_offsets` and `consumer_group_records` the records that coordinators keep, `consumer_protocol` what members of
a group tell each other. `annotations` has the words in which their fields say what each version has. Nothing here knows
how to encode: that is `eagleray.protocol.codec`.
"""
