"""`make bench`: every benchmark that needs nothing but this package, one after the other."""

from benchmarks import codec, columnar, log, records


def main() -> None:
    for benchmark in (codec, records, columnar, log):
        benchmark.main()


if __name__ == "__main__":
    main()
