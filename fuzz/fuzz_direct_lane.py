"""Look for frames of the direct lane that end a node, fail in it, or break what it keeps.

python fuzz/fuzz_direct_lane.py [libFuzzer options] [corpus folders], for example -max_total_time=120
"""

from driving import drive

if __name__ == "__main__":
    drive("direct_lane")
