"""A Python prompt for a program: takes blocks of code as lines of JSON, and runs them in one namespace."""

import json
import sys
import traceback

DONE = "\0done"


def main() -> None:
    namespace = {"__name__": "__main__"}
    for line in sys.stdin:
        request = json.loads(line)
        raised = None
        try:
            exec(compile(request["code"], request["where"], "exec"), namespace)
        except BaseException:  # noqa: BLE001 - whatever a block raises is what the reader is told
            raised = traceback.format_exc()
        print(f"{DONE}{json.dumps(raised)}", flush=True)


if __name__ == "__main__":
    main()
