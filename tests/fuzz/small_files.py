"""Damage to small files on disk, as bytes choose it: a reader says what is wrong, and never takes it for nothing."""

import resource
from typing import Any

from crc32c import crc32c

from eagleray.broker.generations import summed
from eagleray.broker.log import LogConfig, LogError, PartitionLog, names
from eagleray.broker.log.bookmark import Bookmark, write_bookmark
from tests.fuzz.choices import Choices
from tests.fuzz.small_file_kinds import SmallFile, empty_disk, small_files
from tests.fuzz.violation import Violation
from tests.support.batches import NOW_MS, data_batch, marker_batch, placed
from tests.support.log_checks import aborted_in, committed_values, describe_producers, epochs_of
from tests.support.log_driver import DIRECTORY
from tests.support.node_disk import NodeDisk

MOST_GROWTH_BYTES = 64 * 1024 * 1024
_CONFIG = LogConfig(segment_bytes=1024, index_interval_bytes=100)
_LONG = 5000
_HEADS = (b"", b'{"x":', b"\0", b'{"version":1,"sequence":')


class SmallFilesTarget:
    """Damages one file, or both of its generations, and has it read, by itself or by the opening of a whole log."""

    def __init__(self) -> None:
        self.frames = 0
        self._log_disk, self._log_state = _closed_log(), ()
        self._kinds = small_files(_files_of_segment(self._log_disk))
        self._written = {kind.name: _written(kind) for kind in self._kinds}
        self._log_state = _state_of(_opened(self._log_disk.copy()))
        self._most_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self, data: bytes) -> None:
        """Take one input. Raises Violation."""
        choices = Choices(data)
        self.frames += 1
        if choices.one_in(4):
            self._open_log(choices)
        else:
            self._read(choices.of(self._kinds), choices)
        self._check_memory()

    def close(self) -> None:
        """There is nothing to put away."""

    def _read(self, kind: SmallFile, choices: Choices) -> None:
        disk, written = empty_disk(), self._written[kind.name]
        is_both = choices.one_in(2)
        struck = choices.of(kind.paths)
        for path, sound in written.items():
            damages = is_both or path == struck
            _put(disk, path, damaged(sound, choices) if damages else sound)
        try:
            found = kind.read(disk)
        except kind.errors:
            return
        except Exception as error:
            raise Violation(f"{kind.name}: reading raised {error!r}") from error
        if kind.is_empty(found):
            raise Violation(f"{kind.name}: damage was taken for a file that was never written")

    def _open_log(self, choices: Choices) -> None:
        """Open a log of which one small file is damaged: it says so, or is what it was."""
        disk = self._log_disk.copy()
        paths = [path for path in disk.tree() if path.startswith(f"{DIRECTORY}/") and not path.endswith(".log")]
        path = choices.of(paths)
        sound = disk.read_bytes(path)
        changed = damaged(sound, choices, may_seal=False)
        _put(disk, path, changed)
        try:
            log = _opened(disk)
        except LogError:
            return
        except Exception as error:
            raise Violation(f"a log with a damaged {path} cannot be opened: {error!r}") from error
        if _state_of(log) != self._log_state:
            raise Violation(f"damage to {path} has made {_state_of(log)} of {self._log_state}")

    def _check_memory(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        growth, self._most_kilobytes = (used - self._most_kilobytes) * 1024, used
        if growth > MOST_GROWTH_BYTES:
            raise Violation(f"reading a damaged file has made the process {growth} bytes larger")


def damaged(sound: bytes, choices: Choices, *, may_seal: bool = True) -> bytes:
    """Something that was never written there; where it is sealed, below a checksum that fits."""
    changed = _damages(sound, choices)
    seal = choices.below(6) if may_seal else 0
    if seal == 1:
        return summed(changed.partition(b"\n")[2] or changed)
    if seal == 2:
        return crc32c(changed[4:]).to_bytes(4) + changed[4:]
    if seal == 3:
        return changed[:2] + crc32c(changed[6:]).to_bytes(4) + changed[6:]
    return changed


def _damages(sound: bytes, choices: Choices) -> bytes:
    changed = bytearray(sound)
    kind = choices.below(8)
    if kind == 0:
        return choices.bytes(choices.byte())
    if kind == 1:
        return b""
    if kind == 2:
        return bytes(len(sound))
    if kind == 3:
        return choices.of(_HEADS) + choices.of((b"[", b"9", b"\x91", b'{"x":', b" ")) * (_LONG * choices.below(64))
    if kind == 4:
        del changed[choices.number(2) % (len(changed) + 1) :]
    digits = [place for place, value in enumerate(sound) if chr(value).isdigit()]
    if kind == 6 and digits:
        changed[choices.of(digits)] = ord("0") + choices.below(10)
        return bytes(changed)
    if kind == 5:
        place = choices.number(2) % (len(changed) + 1)
        changed[place:place] = choices.bytes(choices.below(32))
    for _ in range(1 + choices.below(6)):
        if changed:
            changed[choices.number(2) % len(changed)] = choices.byte()
    return bytes(changed)


def _put(disk: NodeDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    if data:
        file.write([data])
    file.close()


def _written(kind: SmallFile) -> dict[str, bytes]:
    disk = empty_disk()
    kind.write(disk)
    return {path: disk.read_bytes(path) for path in kind.paths}


def _opened(disk: NodeDisk) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, _CONFIG, now_ms=NOW_MS)


def _closed_log() -> NodeDisk:
    """A log of some segments, with transactions of which some are aborted and one is open, and a bookmark."""
    disk = NodeDisk()
    log = _opened(disk)
    for number in range(12):
        producer_id = number % 3
        batch = data_batch(3, producer_id=producer_id, sequence=number // 3 * 3, transactional=True, value=bytes(40))
        log.append([batch], leader_epoch=number // 5, now_ms=NOW_MS)
        if producer_id != 2:
            marker = marker_batch(producer_id, commit=producer_id == 0)
            log.append_replicated([_placed(marker, log)], now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    bookmark = Bookmark.of(log, disk.boot_id())
    log.close()
    assert bookmark is not None
    write_bookmark(disk, DIRECTORY, bookmark)
    return disk


def _placed(batch: Any, log: PartitionLog) -> Any:
    return placed(batch, log.log_end_offset, log.epochs.latest_epoch)


def _files_of_segment(disk: NodeDisk) -> dict[str, bytes]:
    """The files of a closed segment with all kinds of indexes, by their suffixes."""
    tree = disk.tree()
    found: dict[str, bytes] = {names.BOOKMARK_FILE: tree[f"{DIRECTORY}/{names.BOOKMARK_FILE}"]}
    for suffix in (".snapshot", *names.INDEX_FILE_SUFFIXES):
        found[suffix] = next(data for path, data in tree.items() if path.endswith(suffix) and data)
    return found


def _state_of(log: PartitionLog) -> tuple[Any, ...]:
    log.advance_high_watermark(log.log_end_offset)
    looks = (describe_producers, epochs_of, aborted_in, committed_values)
    return log.log_start_offset, log.log_end_offset, *(look(log) for look in looks)
