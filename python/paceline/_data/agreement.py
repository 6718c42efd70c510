"""Compares the order that ranks read. Each rank reports eight bytes and waits for no other rank.

    agreement = Agreement("sampler", name="train", where="ElasticLoader")
    agreement.say(epoch, "3f09a1b2c3d4e5f6")  # at the start of an epoch
    agreement.look()                          # at each step: raises once ranks have differed

Where the reports go: under `paceline run` to the master, over the lease socket
(docs/formats/lease_frames.md); under another launcher to the store of the process group. Without a
launcher they are compared within the process, which may stand for several ranks in tests. A loader
of a single rank, such as one for evaluation, compares nothing.
"""

import contextlib
import os
import socket
import struct
import sys
import time
from collections import Counter
from typing import Protocol, cast

from paceline._rank import progress
from paceline.errors import DataError

_HEAD = struct.Struct("<IHHIIQQQQ")  # size, op, flags, peer, 0, number, lease, begin, end
_FRAME_BYTES_MAX = 64 << 10
_AGREE, _DIFFERS, _RESET = 10, 43, 65
_REDIAL_SECONDS = 1.0
_LOOK_SECONDS = 0.5  # between two reads of the store, each a request to its host
_KEPT = 64  # reports of a loader that are repeated to a new master


class Differs(Exception):
    """These ranks reported different bytes for that place."""

    def __init__(self, place: int, ranks: tuple[int, int]) -> None:
        super().__init__(place, ranks)
        self.place = place
        self.ranks = ranks


class Channel(Protocol):
    def say(self, key: str, place: int, digest: int, rank: int) -> None:
        """`rank` is the rank in the loader's group; the channel may use the rank in the world."""
        ...

    def look(self, key: str) -> None:
        """Raises `Differs`."""
        ...


_made: Counter[tuple[str, int]] = Counter()  # loaders of this process, by name and rank
_channel: Channel | None = None
_pid = 0


class Agreement:
    """The reports of one loader. In a world of one rank it reports nothing."""

    def __init__(self, kind: str, *, name: str, about: str, rank: int, world_size: int) -> None:
        """`about` replaces a missing name. Loaders with the same name are numbered."""
        self._key, self._rank = "", rank
        if world_size > 1:
            key = f"{kind} {name}" if name else f"{kind} of {about}"
            self._key = f"{key} {_made[(key, rank)]}"
            _made[(key, rank)] += 1

    def say(self, place: int, digest: str) -> None:
        """Report this rank's digest at `place`, as 16 hexadecimal digits. Raises as `look`."""
        if self._key:
            channel = _open()
            channel.say(self._key, place, int(digest, 16), self._rank)
            channel.look(self._key)

    def look(self) -> None:
        """Raises `Differs` if it is known that ranks reported different bytes."""
        if self._key and _channel is not None and _pid == os.getpid():
            _channel.look(self._key)


def disagreement(differs: Differs, *, what: str, where: str, why: str, fix: str) -> DataError:
    """The error that a loader raises. `why` says how the two ranks differ."""
    first, second = sorted(differs.ranks)
    named = f"rank {first} and rank {second}" if first != second else f"rank {first}, twice,"
    return DataError(what=what, where=where, why=f"{named} {why}", fix=fix)


def _open() -> Channel:
    """This process's channel. The process group may be made after the first loader."""
    global _channel, _pid
    if _channel is None or _channel is _local or _pid != os.getpid():
        _channel, _pid = _find() or _local, os.getpid()
    return _channel


def _find() -> Channel | None:
    path = os.environ.get("PACELINE_LEASE_SOCKET", "")
    if path:
        return MasterChannel(path)
    if "torch.distributed" in sys.modules and progress.world_size() > 1:
        from paceline.integrations.process_group import default_group

        group = default_group()
        if group is not None and group.size > 1:
            return StoreChannel(group)
    return None


class MasterChannel:
    """Frames to this rank's agent, which passes them on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._dialled = float("-inf")
        self._unsent = b""
        self._unread = b""
        self._said: dict[str, dict[int, int]] = {}
        self._differs: dict[str, Differs] = {}

    def say(self, key: str, place: int, digest: int, rank: int) -> None:
        places = self._said.setdefault(key, {})
        places[place] = digest
        while len(places) > _KEPT:
            del places[min(places)]
        self._unsent += self._frame(key, place, digest)
        self._move()

    def look(self, key: str) -> None:
        self._move()
        if key in self._differs:
            raise self._differs[key]

    def _frame(self, key: str, place: int, digest: int) -> bytes:
        text = key.encode(errors="replace")[:4096]
        size = _HEAD.size + len(text)
        rank, generation = progress.rank(), progress.generation()
        return _HEAD.pack(size, _AGREE, 0, 0, 0, generation, digest, rank, place) + text

    def _move(self) -> None:
        """Send and receive without blocking."""
        if self._socket is None and not self._dial():
            return
        one = cast("socket.socket", self._socket)
        try:
            while part := one.recv(_FRAME_BYTES_MAX):
                self._unread += part
            self._hang_up()
            return
        except BlockingIOError:
            self._hear()
        except OSError:
            self._hang_up()
            return
        try:
            while self._unsent:
                self._unsent = self._unsent[one.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()

    def _dial(self) -> bool:
        if time.monotonic() - self._dialled < _REDIAL_SECONDS:
            return False
        self._dialled = time.monotonic()
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            one.connect(self._path)
        except OSError:
            one.close()
            return False
        one.setblocking(False)
        self._socket = one
        self._say_again()
        return True

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unread = None, b""

    def _say_again(self) -> None:
        self._unsent = b"".join(
            self._frame(key, place, digest)
            for key, places in self._said.items()
            for place, digest in places.items()
        )

    def _hear(self) -> None:
        while len(self._unread) >= _HEAD.size:
            size, op, _, _, _, place, _, first, second = _HEAD.unpack_from(self._unread)
            if not _HEAD.size <= size <= _FRAME_BYTES_MAX:
                self._hang_up()
                return
            if len(self._unread) < size:
                return
            text = self._unread[_HEAD.size : size].decode(errors="replace")
            self._unread = self._unread[size:]
            if op == _RESET:  # a new master knows nothing yet
                self._say_again()
            elif op == _DIFFERS:
                self._differs[text] = Differs(place, (first, second))


class Store(Protocol):
    """See `paceline.integrations.process_group.Group`."""

    rank: int

    def put(self, key: str, text: str) -> None: ...
    def read(self, key: str) -> str | None: ...
    def count(self, key: str) -> int: ...


class StoreChannel:
    """Entries in the process group's store: the first report of each place, and a difference."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[tuple[str, int], int] = {}
        self._looked: dict[str, float] = {}

    def say(self, key: str, place: int, digest: int, rank: int) -> None:
        self._pending[(key, place)] = digest
        self._looked.pop(key, None)  # the next look asks the store

    def look(self, key: str) -> None:
        if time.monotonic() - self._looked.get(key, float("-inf")) < _LOOK_SECONDS:
            return
        self._looked[key] = time.monotonic()
        with contextlib.suppress(Exception):  # the store's host has ended; this rank will end, too
            self._compare(key)
        found: str | None = None
        with contextlib.suppress(Exception):
            found = self._store.read(f"agree/{key}/differs")
        if found is not None:
            place, first, second = map(int, found.split(" "))
            raise Differs(place, (first, second))

    def _compare(self, key: str) -> None:
        for (named, place), digest in list(self._pending.items()):
            if named != key:
                continue
            entry = f"agree/{key}/{place}"
            if self._store.count(entry) == 1:
                self._store.put(f"{entry}/first", f"{self._store.rank} {digest}")
                del self._pending[(named, place)]
                continue
            first = self._store.read(f"{entry}/first")
            if first is None:
                continue  # it is being written; the next look sees it
            del self._pending[(named, place)]
            rank, other = map(int, first.split(" "))
            if other != digest:
                self._store.put(f"agree/{key}/differs", f"{place} {rank} {self._store.rank}")


class LocalChannel:
    """Compares the reports of this process alone."""

    def __init__(self) -> None:
        self._first: dict[str, dict[int, tuple[int, int]]] = {}
        self._differs: dict[str, Differs] = {}

    def say(self, key: str, place: int, digest: int, rank: int) -> None:
        places = self._first.setdefault(key, {})
        first, other = places.setdefault(place, (rank, digest))
        if other != digest and first != rank:
            self._differs[key] = Differs(place, (first, rank))
        while len(places) > _KEPT:
            del places[min(places)]

    def look(self, key: str) -> None:
        if key in self._differs:
            raise self._differs[key]


_local = LocalChannel()
