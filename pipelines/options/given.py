"""The options of one query: names checked, whatever their case, before any value is parsed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TypeVar

from eagleray.pipelines.options.errors import OptionError
from eagleray.pipelines.options.foreign import SPARKS_OWN, advice_on
from eagleray.pipelines.options.table import Option, Side, options_of

_OTHER: dict[Side, Side] = {"source": "sink", "sink": "source"}
_Value = TypeVar("_Value")


class Given:
    """What was given to one source or sink, by documented names; raises OptionError for a name that does not belong."""

    def __init__(self, options: Mapping[str, str], *, side: Side, streaming: bool) -> None:
        self.side = side
        self.streaming = streaming
        self.options = options_of(side)
        self._names = {key.lower(): each for each in self.options.values() for key in (each.name, *each.aliases)}
        self._texts: dict[str, str] = {}
        self._sparks_own: dict[str, str] = {}
        for key, text in options.items():
            self._take(key, text)

    def has(self, name: str) -> bool:
        """Return whether an option was given."""
        return name in self._texts

    def optional(self, name: str, parse: Callable[[Option, str], _Value]) -> _Value | None:
        """Parse an option, or its default; None where it has neither."""
        option = self.options[name]
        text = self._texts.get(name, option.default_for(streaming=self.streaming))
        return None if text is None else parse(option, text)

    def required(self, name: str, parse: Callable[[Option, str], _Value]) -> _Value:
        """Parse an option that has a default."""
        value = self.optional(name, parse)
        assert value is not None, f"the table has no default for {name}"
        return value

    def sparks_own(self, name: str) -> str | None:
        """Return an option that Spark itself has set."""
        return self._sparks_own.get(name.lower())

    def _take(self, key: str, text: str) -> None:
        option = self._names.get(key.lower())
        if option is not None:
            self._check_query(option)
            if option.name in self._texts:
                spellings = " and ".join((option.name, *option.aliases))
                raise OptionError(f"{spellings} are one option under two names: give one of them, not both.")
            self._texts[option.name] = text
        elif key.lower() in SPARKS_OWN:
            self._sparks_own[key.lower()] = text
        else:
            raise OptionError(self._unknown(key))

    def _check_query(self, option: Option) -> None:
        kind = "streaming" if self.streaming else "batch"
        if option.query not in (kind, "both"):
            calls = {"source": ("read", "readStream"), "sink": ("write", "writeStream")}[self.side]
            right, here = (calls[1], calls[0]) if option.query == "streaming" else calls
            raise OptionError(
                f"{option.name} is an option of {option.query} queries ({right}), but this is a {kind} query ({here}). "
                "Leave it out here."
            )

    def _unknown(self, key: str) -> str:
        other = _OTHER[self.side]
        others = {option.name.lower(): option.name for option in options_of(other).values()}
        if key.lower() in others:
            return f"{others[key.lower()]} is an option of the {other}, not of the {self.side}. {self._listed()}"
        advice = advice_on(key)
        if advice is not None:
            return advice
        near = difflib.get_close_matches(key.lower(), self._names, 1, 0.6)
        hint = f" Did you mean {self._names[near[0]].name}?" if near else ""
        return f"{key!r} is not an option of the {self.side}.{hint} {self._listed()}"

    def _listed(self) -> str:
        kind = "streaming" if self.streaming else "batch"
        names = [option.name for option in self.options.values() if option.query in (kind, "both")]
        return f"The options of a {kind} {self.side} are {', '.join(names)}."
