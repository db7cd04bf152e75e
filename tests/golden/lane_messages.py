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
    """Whether a message is the same but for fields that may be absent, at its end or at that of a Struct within it."""
    if new == old:
        return True
    if not (new.startswith("(") and old.startswith("(") and new.endswith(")") and old.endswith(")")):
        return _extends_within(new, old)
    new_fields, old_fields = _top_level_fields(new[1:-1]), _top_level_fields(old[1:-1])
    added = new_fields[len(old_fields) :]
    kept = len(new_fields) >= len(old_fields) and all(map(_extends_within, new_fields, old_fields))
    return kept and all("?: " in field for field in added)


def _extends_within(new: str, old: str) -> bool:
    """Whether a field is the same but for what is in the brackets of its type, which extends what was in them."""
    if new == old:
        return True
    (new_head, new_inner, new_tail), (old_head, old_inner, old_tail) = _brackets_of(new), _brackets_of(old)
    if not new_inner or not old_inner or (new_head, new_inner[0]) != (old_head, old_inner[0]):
        return False
    is_struct = new_inner.startswith("(")
    within = _extends(new_inner, old_inner) if is_struct else _extends_within(new_inner[1:-1], old_inner[1:-1])
    return within and _extends_within(new_tail, old_tail)


def _brackets_of(text: str) -> tuple[str, str, str]:
    """Take a text apart: what is before its first bracket, the bracket with all that is in it, and the rest."""
    begin = next((place for place, character in enumerate(text) if character in "([{"), len(text))
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return text[:begin], text[begin : place + 1], text[place + 1 :]
    return text, "", ""


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
