"""Look for damage to small files that a reader does not expect, or takes for a file that was never written.

python fuzz/fuzz_small_files.py [libFuzzer options] [corpus folders], for example -max_total_time=120
"""

from driving import drive

if __name__ == "__main__":
    drive("small_files")
