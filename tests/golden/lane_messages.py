"""What travels on the lanes, as text: one line for each message, and the version of the lane that they are of.

python -m tests.golden.lane_messages

writes `lane_messages.txt` again. Where a peer of the earlier text could not read what is sent now, it asks for another
version of the lane first (`eagleray.actors.lanes.frames.VERSION`), by which the two know each other.
"""

import typing
from pathlib import Path

from eagleray.actors.lanes.catalog import MESSAGES
from eagleray.actors.lanes.frames import VERSION
from tests.golden.shapes import shapes_by_tag

FILE = Path(__file__).parent / "lane_messages.txt"


def described() -> str:
    """The text of what this version sends."""
    return "\n".join([f"version {VERSION}", *shapes_by_tag(typing.get_args(MESSAGES))]) + "\n"


def unreadable(before: str, now: str) -> list[str]:
    """The lines of an earlier text of the same version whose messages have become others."""
    (version, *old), (same_version, *new) = before.splitlines(), now.splitlines()
    if version != same_version:
        return []
    return [line for line in old if not any(_extends(each, line) for each in new)]


def _extends(new: str, old: str) -> bool:
    """Whether a message is the same but for fields at its end that may be absent."""
    if new == old:
        return True
    begins_alike = new.startswith(old[:-1] + ", ")
    return begins_alike and all("?: " in field for field in _top_level_fields(new[len(old) + 1 : -1]))


def _top_level_fields(text: str) -> list[str]:
    fields, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            fields.append("")
        else:
            fields[-1] += character
    return fields


def main() -> None:
    """Write the text, unless it breaks the promise of its version."""
    now = described()
    if FILE.exists() and (lines := unreadable(FILE.read_text(), now)):
        raise SystemExit("\n".join(["these have become others; give the lane another version first:", *lines]))
    FILE.write_text(now)


if __name__ == "__main__":
    main()
