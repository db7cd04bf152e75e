"""What is on a disk and not open: deleted topics, replicas that moved away, and strays (Kafka's stray logs)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.metadata.directories import DirectoryFate, fate_of
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.purge_brake import has_to_ask, is_safe_elsewhere

_log = logging.getLogger(__name__)

INTERVAL_MS: Final = 60_000
PURGE_INTERVAL_MS: Final = 1_000
"""Nodes sweep with each change of the metadata, and the directories may be many."""

PURGED_AGAIN_MS: Final = 60_000
"""How long a directory may take to go, before its removal is begun again."""

_GOING: Final = frozenset({DirectoryFate.DELETED, DirectoryFate.MOVED_AWAY})


class StrayLogs:
    """Sweeps a machine's logs now and then, for those that were not there when their topic was deleted.

    Owns: what was found at the last sweep. A directory is put aside only if the metadata log has deleted its topic, or
    if its replica has moved away and others are in sync, at two sweeps one after the other. What was put aside is
    removed after `delay_ms`, which begin anew with the process. Where most of a machine's directories have moved away
    at once, they are held back until a person writes their number to the file `accept-purge`. Everything else that is
    unknown is a stray: it is listed and left alone. The caller has to sweep with metadata that is fresher than the last
    sweep, so that a topic that is only too new to be known does not pass for a stray. A log that a process has open
    stays.
    """

    def __init__(
        self,
        logs: LogManager,
        machine: str,
        now_ms: int,
        delay_ms: int,
        needs_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begin with what is there now. Where the disk `needs_room`, what was put aside is removed without a delay."""
        self._logs = logs
        self._machine = machine
        self._delay_ms = delay_ms
        self._needs_room = needs_room
        self._next_ms = now_ms + INTERVAL_MS
        self._next_purge_ms = now_ms
        self._suspected: dict[str, DirectoryFate] = {}
        self._put_aside_ms: dict[str, int] = {}
        self.strays: tuple[str, ...] = ()
        """The directories that were unknown at the last two sweeps."""
        self.held_back: tuple[str, ...] = ()
        """Those that the metadata give to other machines, and that do not go before a person accepts it."""

    def sweep(self, image: MetadataImage, now_ms: int) -> list[str]:
        """Put aside what is not needed, and list what is unknown, if a sweep is due; return what was put aside."""
        if image.version and now_ms >= self._next_ms:
            self._next_ms = now_ms + INTERVAL_MS
            put_aside = self._sweep(image)
        else:
            put_aside = []
        if now_ms >= self._next_purge_ms:
            self._next_purge_ms = now_ms + PURGE_INTERVAL_MS
            self._purge(now_ms)
        return put_aside

    def _sweep(self, image: MetadataImage) -> list[str]:
        last, self._suspected = self._suspected, self._judge_all(image)
        again = {name: fate for name, fate in self._suspected.items() if last.get(name) is fate}
        strays = tuple(sorted(name for name, fate in again.items() if fate is DirectoryFate.STRAY))
        if strays != self.strays:
            _log.warning(
                "%s directories of partitions are strays: %s. The metadata do not say what they are; they are neither "
                "served nor removed; `eagleray storage strays list DIR` says what is known of each, and what to do",
                len(strays),
                ", ".join(strays) or "none any more",
            )
        self.strays = strays
        self._hold_back([name for name, fate in again.items() if fate is DirectoryFate.MOVED_AWAY])
        return self._logs.set_aside_unused(sorted(again.keys() - {*strays, *self.held_back}))

    def _hold_back(self, moved_away: list[str]) -> None:
        on_disk = [name for name in self._logs.on_disk() if not name.endswith(DELETE_SUFFIX)]
        accepted = self._accepted_purge() if self.held_back else None
        held_back = tuple(sorted(moved_away)) if has_to_ask(moved_away, on_disk, accepted) else ()
        if held_back and held_back != self.held_back:
            _log.critical(
                "by the metadata, %s of the %s directories of this machine have moved to others: %s. They are kept. If "
                "that is so, accept that they go: echo %s > %s",
                len(held_back),
                len(on_disk),
                ", ".join(held_back),
                len(held_back),
                self._logs.accept_purge_path,
            )
        elif self.held_back and not held_back and accepted is not None:
            _log.warning("a person has accepted that %s go", ", ".join(self.held_back))
            with suppress(OSError):
                self._logs.forget_accepted_purge()
        self.held_back = held_back

    def _accepted_purge(self) -> int | None:
        try:
            return self._logs.accepted_purge()
        except OSError as error:
            _log.warning("%s cannot be read: %s", self._logs.accept_purge_path, error)
            return None

    def _judge_all(self, image: MetadataImage) -> dict[str, DirectoryFate]:
        names = (name for name in self._logs.on_disk() if not name.endswith(DELETE_SUFFIX))
        fates = {name: self._judge(name, image) for name in names}
        return {name: fate for name, fate in fates.items() if fate is not DirectoryFate.KEPT}

    def _judge(self, name: str, image: MetadataImage) -> DirectoryFate:
        try:
            return self._judge_by_files(name, image)
        except OSError as error:
            # The disk has failed, or another node of this machine has just put the directory aside.
            _log.warning("%s cannot be judged yet: %s", name, error)
            return DirectoryFate.KEPT

    def _judge_by_files(self, name: str, image: MetadataImage) -> DirectoryFate:
        fate = fate_of(name, self._logs.topic_id_in(name), image, self._machine)
        if fate in _GOING and self._logs.is_contradicted(name):
            return DirectoryFate.STRAY
        if fate is DirectoryFate.MOVED_AWAY and not is_safe_elsewhere(name, image, self._machine):
            return DirectoryFate.KEPT
        return fate

    def _purge(self, now_ms: int) -> None:
        """Remove what was put aside long enough ago."""
        names = [name for name in self._logs.on_disk() if name.endswith(DELETE_SUFFIX)]
        self._put_aside_ms = {name: self._put_aside_ms.get(name, now_ms) for name in names}
        delay_ms = 0 if self._needs_room() else self._delay_ms
        for name, since_ms in self._put_aside_ms.items():
            if now_ms - since_ms >= delay_ms:
                _log.info("removing %s", name)
                self._logs.purge(name)
                # What cannot be removed now is tried again.
                self._put_aside_ms[name] = now_ms + PURGED_AGAIN_MS
