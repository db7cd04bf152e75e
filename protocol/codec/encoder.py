"""Writes encoders: straight-line Python for one version of a message, without a loop over fields.

What makes them fast:
- neighbours of fixed width are written by one call into the struct module, together with a length behind them
  when that takes a single byte, as nearly all do;
- the parts are joined once;
- the first run of fixed width, the head, is written last, together with what stands before the message: then
  the size of the frame is known, and a message of fixed width is one call altogether.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import Struct, pack

from eagleray.protocol.codec import primitives
from eagleray.protocol.codec.run import Run
from eagleray.protocol.codec.schema import FIXED_WIDTH, Layout, Slot
from eagleray.protocol.codec.source import Source


class FieldWriter:
    """Adds the writing of Structs, and of what they hold, to the source of an encoder.

    The values end up in the list `parts`, but for the head. With `splits_records`, large record data is not
    joined with the rest: the list `buffers` then has what comes before it, it, and so on.
    """

    def __init__(self, source: Source, *, splits_records: bool) -> None:
        self._source = source
        self._splits_records = splits_records
        self._run = Run()
        self._head: Run | None = None
        self._parts = "parts"
        self.has_parts = False

    def finish(self) -> Run:
        """Write what is still pending, and give the head."""
        self.flush()
        assert self._head is not None
        return self._head

    def message(self, layout: Layout, variable: str) -> None:
        """Write a Struct that a variable holds."""
        self._refuse(layout, variable)
        self.struct(layout, {slot.name: f"{variable}.{slot.name}" for slot in layout.slots + layout.tagged})

    def struct(self, layout: Layout, values: Mapping[str, str]) -> None:
        """Write a Struct, given expressions for its fields."""
        for slot in layout.slots:
            self._slot(layout, slot, values[slot.name])
        if layout.tagged:
            self._tagged_section(layout, values)
        elif layout.is_flexible:
            self._run.add("B", "0")

    def flush(self) -> None:
        """Write what is pending; the first time, keep it as the head instead."""
        if self._head is None:
            self._head, self._run = self._run, Run()
        elif self._run:
            run, self._run = self._run, Run()
            self._append(run.packed(self._source))

    def _append(self, expression: str) -> None:
        self.has_parts = True
        self._source.first("parts = []")
        self._source.line(f"{self._parts}.append({expression})")

    def _refuse(self, layout: Layout, variable: str) -> None:
        for slot in layout.refused:
            with self._source.block(f"if {self._differs(layout, slot, f'{variable}.{slot.name}')}:"):
                self._source.line(f"{self._helper('bad_field')}({slot.name!r})")

    def _differs(self, layout: Layout, slot: Slot, value: str) -> str:
        """Give the condition that a value is not the default, as `Slot.has_default` has it."""
        if slot.default is None:
            return f"{value} is not None"
        if slot.type.is_array:
            return f"{value} or {value} is None"
        default = self._source.constant(f"default_{layout.struct.__name__}_{slot.name}", slot.default)
        if slot.type.struct is not None:
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def _slot(self, layout: Layout, slot: Slot, value: str) -> None:
        if slot.type.is_array:
            self._array(layout, slot, value)
        elif slot.type.is_fixed:
            self._fixed(slot, value)
        elif slot.type.struct is not None:
            self._struct_slot(layout, slot, value)
        else:
            self._text(slot, value)

    def _fixed(self, slot: Slot, value: str) -> None:
        if slot.type.name == "uuid":
            identifier = self._source.fresh(slot.name)
            self._source.line(f"{identifier} = {value}")
            with self._source.block(f"if len({identifier}) != 16:"):
                self._source.line(f"{self._helper('bad_uuid')}({identifier})")
            value = identifier
        self._run.add(FIXED_WIDTH[slot.type.name][0], value)

    def _struct_slot(self, layout: Layout, slot: Slot, value: str) -> None:
        variable = self._source.fresh(slot.name)
        self._source.line(f"{variable} = {value}")
        nested = layout.nested(slot.type)
        if not slot.is_nullable:
            self.message(nested, variable)
            return
        self.flush()
        with self._source.block(f"if {variable} is None:"):
            self._append(repr(b"\xff"))
        with self._source.block("else:"):
            self._run.add("b", "1")
            self.message(nested, variable)
            self.flush()

    # Strings, bytes and records.

    def _text(self, slot: Slot, value: str) -> None:
        text, length = self._measure(slot, value, ".encode()" if slot.type.name == "string" else "", 'b""')
        self._length(slot, length, "h" if slot.type.name == "string" else "i")
        if slot.type.name == "records" and self._splits_records:
            self._split(text, length)
        else:
            self._append(text)

    def _measure(self, slot: Slot, value: str, conversion: str, nothing: str) -> tuple[str, str]:
        line, block = self._source.line, self._source.block
        variable, length = self._source.fresh(slot.name), self._source.fresh(f"{slot.name}_length")
        if not slot.is_nullable:
            line(f"{variable} = {value}{conversion}")
            line(f"{length} = len({variable})")
            return variable, length
        line(f"{variable} = {value}")
        with block(f"if {variable} is None:"):
            line(f"{variable} = {nothing}")
            line(f"{length} = -1")
        with block("else:"):
            if conversion:
                line(f"{variable} = {variable}{conversion}")
            line(f"{length} = len({variable})")
        return variable, length

    def _length(self, slot: Slot, length: str, code: str) -> None:
        if slot.is_compact:
            self._run.compact_length = length
        else:
            self._run.add(code, length)
        self.flush()

    def _split(self, records: str, length: str) -> None:
        line, block = self._source.line, self._source.block
        self._source.first("buffers = []")
        with block(f"if {length} < {primitives.LARGE_RECORDS_BYTES}:"):
            self._append(records)
        with block("else:"):
            line('buffers.append(b"".join(parts))')
            line(f"buffers.append({records})")
            line("parts.clear()")

    # Arrays.

    def _array(self, layout: Layout, slot: Slot, value: str) -> None:
        items, count = self._measure(slot, value, "", "()")
        self._length(slot, count, "i")
        if slot.type.name.startswith("int"):
            self._integers(slot, items, count)
            return
        element = self._source.fresh(f"{slot.name}_element")
        with self._source.block(f"for {element} in {items}:"):
            if slot.type.struct is not None:
                self.message(layout.nested(slot.type), element)
            else:
                self._slot(layout, slot.element, element)
            self.flush()

    def _integers(self, slot: Slot, items: str, count: str) -> None:
        code, _ = FIXED_WIDTH[slot.type.name]
        prepared = self._source.bind(f"pack_{slot.type.name}_array", prepared_packers(code))
        any_count = f'{self._source.bind("pack", pack)}(f">{{{count}}}{code}", *{items})'
        with self._source.block(f"if 0 < {count} <= {primitives.PREPARED_COUNT}:"):
            self._append(f"{prepared}[{count}](*{items})")
        with self._source.block(f"elif {count} > 0:"):
            self._append(any_count)

    # Tagged sections.

    def _tagged_section(self, layout: Layout, values: Mapping[str, str]) -> None:
        line, block = self._source.line, self._source.block
        self.flush()
        tagged = self._source.fresh("tagged")
        line(f"{tagged} = []")
        for slot in layout.tagged:
            self._tagged_field(layout, slot, values[slot.name], tagged)
        with block(f"if {tagged}:"):
            self._append(f"{self._helper('encode_uvarint')}(len({tagged}))")
            line(f"{self._parts}.extend({tagged})")
        with block("else:"):
            self._append(repr(b"\0"))

    def _tagged_field(self, layout: Layout, slot: Slot, value: str, tagged: str) -> None:
        line, block = self._source.line, self._source.block
        variable, field_parts = self._source.fresh(slot.name), self._source.fresh("field_parts")
        line(f"{variable} = {value}")
        with block(f"if {self._differs(layout, slot, variable)}:"):
            line(f"{field_parts} = []")
            outer_parts, self._parts = self._parts, field_parts
            self._slot(layout, slot, variable)
            self.flush()
            self._parts = outer_parts
            line(f'{tagged}.append({self._helper("encode_tagged")}({slot.tag}, b"".join({field_parts})))')

    def _helper(self, name: str) -> str:
        return self._source.bind(name, getattr(primitives, name))


@cache
def prepared_packers(code: str) -> tuple[Callable[..., bytes], ...]:
    """Give writers for arrays of 0, 1, 2 and more integers of one width, ready for use."""
    return tuple(Struct(f">{count}{code}").pack for count in range(primitives.PREPARED_COUNT + 1))
