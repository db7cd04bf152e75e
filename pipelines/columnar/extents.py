"""Where a column's bytes lie in a buffer."""

from __future__ import annotations

import msgspec

from eagleray.pipelines.columnar.varints import Integers


class Extents(msgspec.Struct, frozen=True):
    """Where a field of each record begins, and how long it is; a negative length is null."""

    starts: Integers
    lengths: Integers

    def only(self, rows: Integers) -> Extents:
        """Return those of some rows."""
        return Extents(self.starts[rows], self.lengths[rows])
