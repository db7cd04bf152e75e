"""Writes decoders: straight-line Python for one version of a message, without a loop over fields.

What makes them fast:
- neighbours of fixed width are read by one call into the struct module, together with the byte that begins
  the length or tagged section behind them;
- lengths of one byte, which nearly all are, are handled on the spot, longer ones by a function;
- no read is checked by itself. Reading past the end raises, slicing past it leaves a position behind the end
  that the last check finds, and the one `try` around everything gives all of it the right name.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct, unpack_from
from typing import Any

from eagleray.protocol.codec import primitives
from eagleray.protocol.codec.cursor import Cursor
from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot, fields_of
from eagleray.protocol.codec.source import Source


class FieldReader:
    """Adds the reading of Structs, and of what they hold, to the source of a function `decode(data)`.

    With `reads_view` the data is a memoryview, otherwise bytes, whose slices are cheaper to turn into text.
    """

    def __init__(self, source: Source, *, reads_view: bool) -> None:
        self._source = source
        self._reads_view = reads_view
        self.cursor = Cursor(source)

    def struct(self, layout: Layout) -> str:
        """Read a Struct, and give the expression that builds it."""
        values = {slot.name: self._slot(layout, slot) for slot in layout.slots}
        if layout.is_flexible:
            values |= self._tagged_section(layout)
        struct = self._source.bind(layout.struct.__name__, layout.struct)
        return f"{struct}({', '.join(self._arguments(layout, values))})"

    def finish(self, *, allows_more: bool) -> None:
        """Read what is still pending, and check that the data ends here."""
        self.cursor.flush()
        with self._source.block(f"if {self.cursor.at()} {'>' if allows_more else '!='} len(data):"):
            self._source.line(f"{self._helper('bad_end')}({self.cursor.at()}, len(data))")

    def _arguments(self, layout: Layout, values: dict[str, str]) -> list[str]:
        """Give the arguments by position, without the defaults at the end, which the Struct adds itself."""
        fields = list(fields_of(layout.struct))
        while fields and fields[-1].name not in values:
            fields.pop()
        return [values.get(field.name) or self._default(layout, field.name, field.default) for field in fields]

    def _default(self, layout: Layout, name: str, default: object) -> str:
        return self._source.constant(f"default_{layout.struct.__name__}_{name}", default)

    def _slot(self, layout: Layout, slot: Slot) -> str:
        if slot.type.is_array:
            return self._array(layout, slot)
        if slot.type.is_fixed:
            return self.cursor.fixed(FIXED_WIDTH[slot.type.name][0], slot.name)
        value = self._source.fresh(slot.name)
        if slot.type.struct is not None:
            self._struct_slot(layout, slot, value)
        elif slot.type.name == "records":
            self._records(slot, value)
        elif slot.is_compact:
            self._compact_text(slot, value)
        else:
            self._old_text(slot, value)
        return value

    def _struct_slot(self, layout: Layout, slot: Slot, value: str) -> None:
        if not slot.is_nullable:
            self._assign_struct(layout, slot, value)
            return
        mark = self.cursor.fixed("b", f"{slot.name}_mark")
        self.cursor.settle()
        with self._source.block(f"if {mark} == 1:"):
            self._assign_struct(layout, slot, value)
        with self._source.block(f"elif {mark} == -1:"):
            self._source.line(f"{value} = None")
        with self._source.block("else:"):
            self._call("bad_presence", mark)

    def _assign_struct(self, layout: Layout, slot: Slot, value: str) -> None:
        expression = self.struct(layout.nested(slot.type))
        self.cursor.flush()
        self._source.line(f"{value} = {expression}")

    # Strings, bytes and records.

    def _slice(self, slot: Slot, start: str, end: str) -> str:
        if slot.type.name == "records":
            if not self._reads_view:
                self._source.first("view = memoryview(data)")
            return f"{'data' if self._reads_view else 'view'}[{start}:{end}]"
        part = f"data[{start}:{end}]"
        if slot.type.name == "string":
            return f'str({part}, "utf-8")' if self._reads_view else f"{part}.decode()"
        return f"bytes({part})" if self._reads_view else part

    def _compact_text(self, slot: Slot, value: str) -> None:
        line, block = self._source.line, self._source.block
        length = self.cursor.peek(f"{slot.name}_length")
        at, behind = self.cursor.at(), self.cursor.at(1)
        with block(f"if 0 < {length} < 128:"):
            line(f"end = {at} + {length}")
            line(f"{value} = {self._slice(slot, behind, 'end')}")
            line("position = end")
        with block(f"elif {length}:" if slot.is_nullable else "else:"):
            helper = "long_text" if slot.type.name == "string" else "long_bytes"
            line(f"{value}, position = {self._helper(helper)}(data, {at}, {slot.is_nullable})")
        if slot.is_nullable:
            with block("else:"):
                line(f"{value} = None")
                line(f"position = {behind}")
        self.cursor.lose_track()

    def _old_text(self, slot: Slot, value: str) -> None:
        length = self.cursor.fixed("h" if slot.type.name == "string" else "i", f"{slot.name}_length")
        self.cursor.settle()
        self._cut(slot, value, length)

    def _records(self, slot: Slot, value: str) -> None:
        if not slot.is_compact:
            self._old_text(slot, value)
            return
        line, block = self._source.line, self._source.block
        length = self.cursor.byte(f"{slot.name}_length")
        self.cursor.settle()
        with block(f"if {length} > 127:"):
            # Two bytes hold the length of most batches, so they too are put together on the spot.
            with block("if data[position] < 128:"):
                line(f"{length} += data[position] - 1 << 7")
                line("position += 1")
            with block("else:"):
                line(f"{length}, position = {self._helper('read_uvarint')}(data, position - 1)")
        line(f"{length} -= 1")
        self._cut(slot, value, length)

    def _cut(self, slot: Slot, value: str, length: str) -> None:
        line, block = self._source.line, self._source.block
        with block(f"if {length} >= 0:"):
            line(f"end = position + {length}")
            line(f"{value} = {self._slice(slot, 'position', 'end')}")
            line("position = end")
        if slot.is_nullable:
            with block(f"elif {length} == -1:"):
                line(f"{value} = None")
        with block("else:"):
            self._call("bad_length", length)

    # Arrays.

    def _array(self, layout: Layout, slot: Slot) -> str:
        value = self._source.fresh(slot.name)
        count = self._count(layout, slot)
        if not slot.is_nullable:
            self._elements(layout, slot, value, count)
            return value
        with self._source.block(f"if {count} < 0:"):
            self._source.line(f"{value} = None")
        with self._source.block("else:"):
            self._elements(layout, slot, value, count)
        return value

    def _count(self, layout: Layout, slot: Slot) -> str:
        """Read how many elements follow.

        A count of one byte needs no check: the elements themselves end where the data does.
        """
        line, block = self._source.line, self._source.block
        minimum_bytes = layout.minimum_element_bytes(slot)
        if not slot.is_compact:
            count = self.cursor.fixed("i", f"{slot.name}_count")
            self.cursor.settle()
            lowest = -1 if slot.is_nullable else 0
            with block(f"if {count} < {lowest} or {count} * {minimum_bytes} > len(data) - position:"):
                self._call("bad_count", count)
            return count
        count = self.cursor.byte(f"{slot.name}_count")
        self.cursor.settle()
        with block(f"if {count} < 128:" if slot.is_nullable else f"if 0 < {count} < 128:"):
            line(f"{count} -= 1")
        with block("else:"):
            arguments = f"data, position - 1, {slot.is_nullable}, {minimum_bytes}"
            line(f"{count}, position = {self._helper('long_count')}({arguments})")
        return count

    def _elements(self, layout: Layout, slot: Slot, value: str, count: str) -> None:
        if slot.type.name.startswith("int"):
            self._integers(slot, value, count)
            return
        line = self._source.line
        items = self._source.fresh(f"{slot.name}_items")
        line(f"{items} = []")
        with self._source.block(f"while {count}:"):
            line(f"{count} -= 1")
            if slot.type.struct is not None:
                element = self.struct(layout.nested(slot.type))
            else:
                element = self._slot(layout, slot.element)
            self.cursor.flush()
            line(f"{items}.append({element})")
        line(f"{value} = tuple({items})")

    def _integers(self, slot: Slot, value: str, count: str) -> None:
        line, block = self._source.line, self._source.block
        code, width = FIXED_WIDTH[slot.type.name]
        prepared = self._source.bind(f"unpack_{slot.type.name}_array", prepared_unpackers(code))
        with block(f"if {count} <= {primitives.PREPARED_COUNT}:"):
            line(f"{value} = {prepared}[{count}](data, position)")
        with block("else:"):
            unpack = self._source.bind("unpack_from", unpack_from)
            line(f'{value} = {unpack}(f">{{{count}}}{code}", data, position)')
        line(f"position += {width} * {count}")

    # Tagged sections.

    def _tagged_section(self, layout: Layout) -> dict[str, str]:
        if layout.tagged:
            return self._known_tags(layout)
        line, block = self._source.line, self._source.block
        if self.cursor.has_pending:
            count = self.cursor.fixed("B", "tags")
            self.cursor.settle()
            with block(f"if {count}:"):
                line(f"position = {self._helper('skip_tagged')}(data, position - 1)")
            return {}
        self.cursor.settle()
        with block("if data[position]:"):
            line(f"position = {self._helper('skip_tagged')}(data, position)")
        with block("else:"):
            line("position += 1")
        return {}

    def _known_tags(self, layout: Layout) -> dict[str, str]:
        line, block = self._source.line, self._source.block
        values = {slot.name: self._source.fresh(slot.name) for slot in layout.tagged}
        self.cursor.settle()
        for slot in layout.tagged:
            line(f"{values[slot.name]} = {self._default(layout, slot.name, slot.default)}")
        with block("if data[position] == 0:"):
            line("position += 1")
        with block("else:"):
            count, tag, end = (self._source.fresh(name) for name in ("tags", "tag", "tag_end"))
            line(f"{count}, position = {self._helper('read_uvarint')}(data, position)")
            line(f"{tag} = -1")
            with block(f"while {count}:"):
                line(f"{count} -= 1")
                line(f"{tag}, {end}, position = {self._helper('next_tag')}(data, position, {tag})")
                self._tag_branches(layout, values, tag, end)
        return values

    def _tag_branches(self, layout: Layout, values: dict[str, str], tag: str, end: str) -> None:
        line, block = self._source.line, self._source.block
        for number, slot in enumerate(layout.tagged):
            with block(f"{'elif' if number else 'if'} {tag} == {slot.tag}:"):
                value = self._slot(layout, slot)
                self.cursor.flush()
                line(f"{values[slot.name]} = {value}")
        with block("else:"):
            line(f"position = {end}")
        with block(f"if position != {end}:"):
            self._call("bad_tagged_size", tag)

    def _helper(self, name: str) -> str:
        return self._source.bind(name, getattr(primitives, name))

    def _call(self, helper: str, argument: str) -> None:
        self._source.line(f"{self._helper(helper)}({argument})")


@cache
def prepared_unpackers(code: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    """Give readers for arrays of 0, 1, 2 and more integers of one width.

    Such arrays are mostly short, and a reader that is ready beats a format that has to be looked up.
    """
    return tuple(Struct(f">{count}{code}").unpack_from for count in range(primitives.PREPARED_COUNT + 1))
