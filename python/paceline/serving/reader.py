"""Follows the versions that a training publishes, for a program that answers requests."""

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paceline._base import arguments
from paceline.errors import DataError
from paceline.serving import versions

Keys = NDArray[np.uint64]
Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Rows by rising key."""

    keys: Keys
    rows: Rows

    def find(self, wanted: Keys, rows: Rows, is_found: NDArray[np.bool_]) -> None:
        """Copy this layer's rows of the wanted keys to `rows`, and mark those keys as found."""
        if len(self.keys) == 0:
            return
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        here = self.keys[at] == wanted
        rows[here] = self.rows[at[here]]
        is_found |= here

    def under(self, newer: "_Layer") -> "_Layer":
        """The rows of both; those of `newer` count."""
        kept = ~np.isin(self.keys, newer.keys, assume_unique=True)
        keys = np.concatenate([self.keys[kept], newer.keys])
        order = np.argsort(keys, kind="stable")
        return _Layer(keys[order], np.concatenate([self.rows[kept], newer.rows])[order])


@dataclass(frozen=True, slots=True)
class _Table:
    """A whole table, and above it what later versions changed. Neither is ever changed."""

    dim: int
    whole: _Layer
    changed: _Layer


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the model: all that it answers belongs together.

    version = reader.version()
    user = version.rows("users", [17, 4])  # two rows
    weight = version.dense("deep.0.weight")
    """

    number: int
    made: float
    """Seconds since 1970, when the training's rows were read."""
    batch: Mapping[str, Any] | None
    """A batch that this version contains: `data_set` and `ordinals`."""
    position: list[Mapping[str, Any]] | None
    """How far each data set is in this version, at least; see docs/formats/serve.md."""
    _tables: Mapping[str, _Table] = field(repr=False)
    _dense: Mapping[str, tuple[str, tuple[int, ...]]] = field(repr=False)

    @property
    def tables(self) -> list[str]:
        """The names of the embedding tables."""
        chunks = {table for table, _ in self._dense.values()}
        return [name for name in self._tables if name not in chunks]

    @property
    def parameters(self) -> list[str]:
        """The names of the dense parameters."""
        return list(self._dense)

    def rows(self, table: str, keys: ArrayLike) -> Rows:
        """The rows of these keys, float32 of shape [keys, dim]. A key without a row has zeros.

        Raises:
            KeyError: this version has no such table.
        """
        wanted = np.asarray(keys).astype(np.int64, casting="same_kind").view(np.uint64)
        it = self._tables[table]
        rows = np.zeros((*wanted.shape, it.dim), np.float32)
        is_found = np.zeros(wanted.shape, np.bool_)
        it.whole.find(wanted, rows, is_found)
        it.changed.find(wanted, rows, is_found)
        return rows

    def dense(self, name: str) -> Rows:
        """A dense parameter, in its shape.

        Raises:
            KeyError: this version has no such parameter.
        """
        table, shape = self._dense[name]
        count = int(np.prod(shape, dtype=np.int64))
        chunks = -(-count // self._tables[table].dim)
        return self.rows(table, np.arange(chunks)).reshape(-1)[:count].reshape(shape)


class Reader:
    """Serves the newest version in a directory.

    reader = Reader("runs/ctr/serve")
    version = reader.version()  # hold it for one request: its answers belong together

    A version that cannot be read is told once, and the one before stays until a newer one builds on
    it or is whole.

    Args:
        directory: that of `Publish`.
        every: seconds between two looks of a thread. None: only `refresh` looks.
    """

    @arguments.known("Reader")
    def __init__(self, directory: str | os.PathLike[str], *, every: float | None = 0.2) -> None:
        self.directory = Path(arguments.text("Reader", "directory", os.fspath(directory),
                                             bytes_max=4_000))
        self._version: Version | None = None
        self._told: object = None
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.refresh()
        if every is not None:
            seconds = arguments.number("Reader", "every", every, least=0.001, most=86_400,
                                       wanted="seconds, 0.001 to 86,400", fix="every=0.2")
            self._thread = threading.Thread(target=self._follow, args=(seconds,), daemon=True)
            self._thread.start()

    def version(self) -> Version:
        """The newest version.

        Raises:
            DataError: nothing was published yet.
        """
        version = self._version
        if version is None and self.refresh():
            version = self._version
        if version is None:
            raise DataError(
                what="there is no version to serve",
                where=str(self.directory),
                why="no training has published into this directory yet, or none can be read",
                fix='Publish("DIR", optimizer) in the training, and the same DIR here',
            )
        return version

    def refresh(self) -> bool:
        """Look for another version now. True: there is one, and it is served."""
        with self._lock:
            try:
                current = versions.read_current(self.directory)
                own = self._version
                if current is None or (own is not None and own.number == current.version):
                    return False
                self._version = self._load(current.version)
            except DataError as error:
                if self._told != error.where:
                    self._told = error.where
                    logging.getLogger("paceline").warning("%s", error)
                return self._version is None and self._take_older()
            self._told = None
            return True

    def _take_older(self) -> bool:
        """Serve the newest version that can be read. False: there is none."""
        for number in reversed(versions.versions_in(self.directory)):
            try:
                self._version = self._load(number)
            except DataError:
                continue
            return True
        return False

    def close(self) -> None:
        """End the thread. The last version stays."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow(self, seconds: float) -> None:
        while not self._is_closed.wait(seconds):
            try:
                self.refresh()
            except Exception:
                logging.getLogger("paceline").exception("the reader of %s", self.directory)

    def _load(self, wanted: int) -> Version:
        """The version, from the served one or from a whole one, and all between."""
        own = self._version
        steps: list[dict[str, Any]] = []
        number: int | None = wanted
        while number is not None and (own is None or number != own.number):
            manifest = versions.read_manifest(self.directory, number)
            steps.append(manifest)
            number = manifest["parent"]
        version = own if number is not None else None
        for manifest in reversed(steps):
            version = self._apply(version, manifest)
        return cast("Version", version)

    def _apply(self, before: Version | None, manifest: dict[str, Any]) -> Version:
        folder = versions.place_of(self.directory, manifest["version"])
        tables: dict[str, _Table] = {}
        for one in manifest["tables"]:
            name, dim = str(one["name"]), int(one["dim"])
            layer = _Layer(
                np.frombuffer(versions.read_part(folder, one["keys"]), "<u8"),
                np.frombuffer(versions.read_part(folder, one["values"]), "<f4").reshape(-1, dim))
            none = _Layer(layer.keys[:0], layer.rows[:0])
            older = before._tables.get(name) if before is not None else None
            if one["is_whole"]:
                tables[name] = _Table(dim, layer, none)
            elif older is None:
                tables[name] = _Table(dim, none, layer)
            else:
                tables[name] = _Table(dim, older.whole, older.changed.under(layer))
        dense = {one["name"]: (one["table"], tuple(one["shape"])) for one in manifest["dense"]}
        return Version(manifest["version"], manifest["made"], manifest["batch"],
                       manifest.get("position"), tables, dense)
