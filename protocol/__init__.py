"""The wire: Kafka's messages as Structs, the compiled codec, record batches and error codes."""
