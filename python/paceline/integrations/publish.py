"""Publishes versions of tables and dense parameters for serving, while the training goes on."""

import atexit
import fcntl
import os
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paceline._base import arguments, launch
from paceline._base.once_a_minute import OnceAMinute
from paceline._data import in_hand
from paceline.embedding import port
from paceline.errors import DataError
from paceline.integrations.table_optimizer import Optimizer
from paceline.serving import versions
from paceline.serving.versions import Current

WHOLE_EVERY = 100  # versions
_LOCK_SECONDS = 5.0
_TRIES = 3  # to read rows between two losses of servers


@dataclass(slots=True)
class _Rows:
    """Of one table."""

    name: str
    dim: int
    is_whole: bool
    keys: bytes
    values: bytes


class Publish:
    """Writes a version of the model for serving when a step ends, every `every` seconds.

    opt = pe.Optimizer(model)
    pe.Publish("runs/ctr/serve", opt, every=1.0)

    A version has the rows that changed since the one before. Every hundredth, the first one, and
    one after a lost table server have all rows. The rows are read in `step`; a thread writes them.
    In a job with several workers the first one publishes, and once more when it ends. If a version
    cannot be written, the training goes on, and the next one has its rows, too.

    Args:
        directory: where versions go; `paceline.serving.Reader` and `paceline serve` read there.
        optimizer: its tables and parameters are published.
        every: seconds between two versions.

    Raises:
        ArgumentError: an argument has a wrong type or value.
        DataError: another process publishes into this directory, or it cannot be written.
    """

    @arguments.known("Publish")
    def __init__(
        self, directory: str | os.PathLike[str], optimizer: Optimizer, *, every: float = 1.0
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise arguments.refuse("Publish", "optimizer", optimizer,
                                   "a paceline.embedding.Optimizer", "Publish(DIR, opt)")
        path = arguments.text("Publish", "directory", os.fspath(directory), bytes_max=4_000)
        self.directory = Path(path).absolute()
        self._optimizer = optimizer
        self._every = arguments.number("Publish", "every", every, least=0.01, most=86_400,
                                       wanted="seconds, 0.01 to 86,400", fix="every=1.0")
        self._next = time.monotonic()
        self._thread: threading.Thread | None = None
        self._teller = OnceAMinute()
        self._position: Any = None  # of the newest version
        self._is_behind = False  # steps came after the newest version
        self._lock: Any = None
        if launch.table_worker() in (None, 0):
            self._lock = _lock(self.directory)
            _remove_torn(self.directory)
            optimizer.after_step(self._after_step)
            in_hand.while_waiting(self._tick_idle)
            atexit.register(self._finish)

    def now(self) -> None:
        """Publish a version now, and wait until it is written. Raises OSError if it cannot be."""
        self._join()
        self._is_behind = False
        self._write(*self._read())

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _finish(self) -> None:
        """When the process ends: the steps that no version has yet."""
        self._join()
        if not self._is_behind:
            return
        try:
            self.now()
        except (OSError, DataError) as error:
            self._tell(error)

    def _after_step(self) -> None:
        self._is_behind = True
        self._tick()

    def _tick_idle(self) -> None:
        """While the loop waits for records: what came before, here or on other workers."""
        self._tick(is_idle=True)

    def _tick(self, *, is_idle: bool = False) -> None:
        is_busy = self._thread is not None and self._thread.is_alive()
        if time.monotonic() < self._next or is_busy:
            return
        self._next = time.monotonic() + self._every
        try:
            version = self._read()
        except OSError as error:
            self._tell(error)
            return
        _, manifest, rows = version
        is_same = manifest["position"] in (None, self._position) and not any(
            one.keys or one.is_whole for one in rows)
        if is_idle and is_same:
            return
        self._position = manifest["position"]
        self._is_behind = False
        self._thread = threading.Thread(target=self._try_to_write, args=version, daemon=False)
        self._thread.start()

    # ---- rows ----

    def _read(self) -> tuple[int, dict[str, Any], list[_Rows]]:
        known = versions.versions_in(self.directory)
        version = known[-1] + 1 if known else 1
        batch = in_hand.current()
        manifest: dict[str, Any] = {
            "schema": versions.SCHEMA,
            "version": version,
            "made": time.time(),
            "batch": None if batch is None or not batch.is_pushed or batch.parts else {
                "data_set": batch.data_set, "ordinals": batch.ordinals},
            "dense": self._optimizer.dense_shapes(),
        }
        wants_all = version % WHOLE_EVERY == 0 or not known
        rows: list[_Rows] = []
        # The rows have what is done before they are read, unless a server is lost meanwhile and
        # begins again with older rows.
        for _ in range(_TRIES):
            before = in_hand.stands()
            rows = [self._rows_of(name, number, dim, version, wants_all=wants_all)
                    for name, number, dim in self._optimizer.every_table()]
            after = in_hand.stands() if before is not None else None
            is_known = before is not None and after is not None and (
                [one.losses for one in before] == [one.losses for one in after])
            manifest["position"] = [one.position for one in before or []] if is_known else None
            if is_known or before is None or after is None:
                break
        is_whole = all(one.is_whole for one in rows)
        manifest["parent"] = None if is_whole else known[-1]
        return version, manifest, rows

    def _rows_of(
        self, name: str, number: int, dim: int, version: int, *, wants_all: bool
    ) -> _Rows:
        # Also if all rows are wanted: it begins the changes of the next version.
        is_known, keys, values = port.wait(lambda: port.tables().changed(number, version))
        is_whole = wants_all or not is_known
        if is_whole:
            keys, values = port.wait(lambda: port.tables().export(number))
        return _Rows(name, dim, is_whole, keys, values)

    # ---- files ----

    def _try_to_write(self, version: int, manifest: dict[str, Any], rows: list[_Rows]) -> None:
        try:
            self._write(version, manifest, rows)
        except (OSError, DataError) as error:
            self._tell(error)

    def _write(self, version: int, manifest: dict[str, Any], rows: list[_Rows]) -> None:
        place = versions.place_of(self.directory, version)
        part = place.with_name(f".{place.name}.{os.getpid()}")
        part.mkdir(parents=True)
        try:
            manifest["tables"] = [_write_rows(part, number, one) for number, one in enumerate(rows)]
            versions.write_manifest(part, manifest)
            part.rename(place)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        with versions.locked(self.directory, "CURRENT.lock"):
            current = versions.read_current(self.directory)
            if current is None or not current.is_pinned:
                versions.write_current(self.directory, Current(version))
        if versions.is_whole(manifest):  # no other version makes older ones superfluous
            self._prune()

    def _prune(self) -> None:
        served = versions.read_current(self.directory)
        whole = [(number, versions.is_whole(versions.read_manifest(self.directory, number)))
                 for number in versions.versions_in(self.directory)]
        for number in versions.without_old(whole):
            if served is None or not served.is_pinned or number > served.version:
                shutil.rmtree(versions.place_of(self.directory, number), ignore_errors=True)

    def _tell(self, error: Exception) -> None:
        self._teller.tell("no version for serving was written into %s: %s; the training goes on",
                          self.directory, error)


def _lock(directory: Path) -> Any:
    """Held until the process ends. Two trainings would take turns in what is served."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = open(os.open(directory / "publisher.lock", flags, 0o644), "w")  # noqa: SIM115
    except OSError as error:
        raise DataError(
            what="versions cannot be published here",
            where=str(directory),
            why=str(error),
            fix="a directory that this process may write",
        ) from None
    until = time.monotonic() + _LOCK_SECONDS  # a process that was killed may just be ending
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.05)
                continue
            file.close()
            raise DataError(
                what="another training publishes here",
                where=str(directory),
                why="a process that runs holds its file `publisher.lock`",
                fix="end that training, or give each its own directory",
            ) from None


def _remove_torn(directory: Path) -> None:
    """Of a process that was killed while it wrote."""
    for torn in (directory / "versions").glob(".*"):
        shutil.rmtree(torn, ignore_errors=True)


def _write_rows(folder: Path, number: int, rows: _Rows) -> dict[str, Any]:
    keys = np.frombuffer(rows.keys, "<u8")
    values = np.frombuffer(rows.values, "<f4").reshape(-1, rows.dim)
    order = np.argsort(keys)
    return {
        "name": rows.name,
        "dim": rows.dim,
        "rows": len(keys),
        "is_whole": rows.is_whole,
        "keys": versions.write_part(folder / f"{number}.keys", keys[order].tobytes()),
        "values": versions.write_part(folder / f"{number}.values", values[order].tobytes()),
    }
