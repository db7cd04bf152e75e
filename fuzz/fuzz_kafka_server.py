"""Look for frames of Kafka's protocol that end a node, fail in it, or break what it keeps.

python fuzz/fuzz_kafka_server.py [libFuzzer options] [corpus folders], for example -max_total_time=120
"""

from driving import drive

if __name__ == "__main__":
    drive("kafka_server")
