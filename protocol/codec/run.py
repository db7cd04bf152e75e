"""The fixed-width values that an encoder in the making has yet to write."""

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize, pack

from eagleray.protocol.codec import primitives
from eagleray.protocol.codec.source import Source


class Run:
    """Neighbours of fixed width, and perhaps a compact length behind them, that are written by one call."""

    def __init__(self, fields: list[tuple[str, str]] | None = None, compact_length: str | None = None) -> None:
        self.fields = fields or []
        self.compact_length = compact_length

    def __bool__(self) -> bool:
        return bool(self.fields) or self.compact_length is not None

    @property
    def fixed_bytes(self) -> int:
        """How many bytes the values of fixed width take."""
        return calcsize(f">{self._codes}")

    @property
    def _codes(self) -> str:
        return "".join(code for code, _ in self.fields)

    def add(self, code: str, expression: str) -> None:
        """Add a value of fixed width."""
        self.fields.append((code, expression))

    def preceded_by(self, code: str, expression: str) -> "Run":
        """Give a run with one more value, before all others."""
        return Run([(code, expression), *self.fields], self.compact_length)

    def packed(self, source: Source) -> str:
        """Give the expression that packs it all."""
        length = self.compact_length
        if length is None:
            return self.packed_values(source)
        is_short = f"{length} <= {primitives.HIGHEST_SHORT_LENGTH}"
        return f"{self.packed_short(source)} if {is_short} else {self._packed_long(source, length)}"

    def packed_values(self, source: Source) -> str:
        """Give the expression that packs the values of fixed width, without a length behind them."""
        if all(expression.lstrip("-").isdigit() for _, expression in self.fields):
            values = (int(expression) for _, expression in self.fields)
            return repr(pack(f">{self._codes}", *values))
        return _call(source, self.fields)

    def packed_short(self, source: Source) -> str:
        """Give the expression that packs it all if the length behind the values takes one byte."""
        if not self.fields:
            return f"{source.bind('compact_lengths', primitives.COMPACT_LENGTHS)}[{self.compact_length}]"
        return _call(source, [*self.fields, ("B", f"{self.compact_length} + 1")])

    def _packed_long(self, source: Source, length: str) -> str:
        encoded = f"{source.bind('encode_compact', primitives.encode_compact)}({length})"
        return f"{self.packed_values(source)} + {encoded}" if self.fields else encoded


def _call(source: Source, fields: list[tuple[str, str]]) -> str:
    codes = "".join(code for code, _ in fields)
    packer = source.bind(f"pack_{codes.replace('?', 'o')}", packer_of(codes))
    return f"{packer}({', '.join(expression for _, expression in fields)})"


@cache
def packer_of(codes: str) -> Callable[..., bytes]:
    """Give the writer of a run, the same one for all functions that have such a run."""
    return Struct(f">{codes}").pack
