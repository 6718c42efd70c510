"""The images that a state is restored from, opened when they are needed."""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from paceline._native import Image, Manifest
from paceline._state import notes
from paceline._state.save_plan import Box, Shape

# Address and bytes of memory that is written to. The native module compares the bytes with what
# goes there, so a wrong type or shape is an error and overwrites nothing.
Memory = tuple[int, int]
# Index of a box, begin in it, extent, memory of the target, its shape, begin in that.
Region = tuple[int, Shape, Shape, Memory, Shape, Shape]


class UnreadableError(Exception):
    """An image is not there any more, or is not what was saved.

    With `is_away` nothing is known of it: the system does not let it be read now; with
    `is_all_away`, nothing else of the storage either. `rank` is whose image it is; None: it is the
    checkpoint itself.
    """

    def __init__(
        self,
        why: str,
        *,
        is_away: bool = False,
        is_all_away: bool = False,
        rank: int | None = None,
    ) -> None:
        self.is_away = is_away
        self.is_all_away = is_all_away
        self.rank = rank
        super().__init__(why)


@contextmanager
def _told(rank: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # EAGAIN comes from the agent alone, which has asked the storage as a whole.
        is_all_away = error.errno == errno.EAGAIN
        raise UnreadableError(
            str(error), is_away=True, is_all_away=is_all_away, rank=rank
        ) from error
    except (LookupError, RuntimeError, notes.NotesError) as error:
        raise UnreadableError(str(error), rank=rank) from error


@dataclass(frozen=True)
class SharedReading:
    """Hosts read a checkpoint together: each a share of its chunks, which all ask their agents for.

    `is_for_all`: no rank has a file that is its own, as the world had another size.
    `is_own_too`: such a file is no nearer to its rank than those of others.
    """

    socket: str
    is_for_all: bool
    is_own_too: bool


class Source:
    """One rank's image: its boxes by the name of their tensor."""

    def __init__(self, image: Image, rank: int) -> None:
        self.image = image
        self.rank = rank
        self.notes_text: bytes | None = None  # another's, instead of its own
        boxes = image.boxes()
        self.boxes = {
            key: (index, Box(dtype, tuple(shape), tuple(offset), ()))
            for index, (key, dtype, shape, offset, _size) in enumerate(boxes)
        }
        self.sizes = {key: size for key, _dtype, _shape, _offset, size in boxes}  # in bytes

    def notes(self) -> dict[str, object]:
        """The small state of that rank."""
        with _told(self.rank):
            text = self.image.notes if self.notes_text is None else self.notes_text
            return notes.loads(text, rank=self.rank)

    def restore(self, wholes: list[tuple[int, Memory]], regions: list[Region]) -> None:
        """Copy boxes to memory, and parts of boxes; one or the other of a box."""
        with _told(self.rank):
            self.image.restore(wholes, regions)


class Images:
    """What one step left, by rank: `images.own` is the nearest to this rank, `images.others()`.

    Opening one reads and checks its header, so others are opened only when a part of theirs is
    wanted: in a world of another size or layout.
    """

    def __init__(self, ranks: Sequence[int], own: int, open_one: Callable[[int], Image]) -> None:
        nearest = own if own in ranks else ranks[0]
        # Whoever holds the same box, ranks that start elsewhere read it elsewhere.
        self._rest = [rank for rank in ranks if rank > nearest]
        self._rest += [rank for rank in ranks if rank < nearest]
        self._open_one = open_one
        # Others have shares in that file, too: it is read as theirs are.
        self.reopen_own: Callable[[], Image] | None = None
        # Names of tensors that differ between ranks, as the manifest says; None: not known yet.
        self.differing: set[str] | None = None
        self.own = self._open(nearest)
        self.opened = [self.own]

    @classmethod
    def stored(
        cls,
        folder: str,
        own: int,
        fetch_all: Callable[[], None] | None = None,
        read_once: tuple[int, Callable[[], Image]] | None = None,
        shared: SharedReading | None = None,
    ) -> "Images":
        """Those of a checkpoint's folder; `fetch_all` brings the files of the other ranks there.

        `read_once`: the rank whose tensors are `own`'s as well, which one host has read for all.
        `shared`: how several hosts read what each of them has a share in.
        """
        with _told():
            manifest = Manifest.read(folder)
        opened: set[int] = set()
        nearest = own if read_once is None else read_once[0]
        # A rank that takes over what it saved reads it by itself.
        is_shared = shared is not None and shared.is_for_all

        def open_one(rank: int) -> Image:
            is_first = not opened
            opened.add(rank)
            if is_first and read_once is not None:
                return read_once[1]()
            if is_first and not is_shared:
                return manifest.image(folder, rank)
            if shared is not None:
                return manifest.image(folder, rank, shared.socket)
            # The nearest one, which comes first, is there.
            if len(opened) == 2 and fetch_all is not None:
                fetch_all()
            return manifest.image(folder, rank)

        images = cls(range(manifest.world_size), nearest, open_one)
        images.differing = set(manifest.differing)
        if shared is not None and shared.is_own_too and read_once is None and not is_shared:
            images.reopen_own = lambda: manifest.image(folder, images.own.rank, shared.socket)
        if read_once is not None:
            with _told():
                images.own.notes_text = manifest.notes(folder, own)
        return images

    def open_others(self) -> bool:
        """False: they were open already, or there are none."""
        rest, self._rest = self._rest, []
        if rest and self.reopen_own is not None:
            with _told(self.own.rank):
                self.own.image = self.reopen_own()
        self.opened += [self._open(rank) for rank in rest]
        return bool(rest)

    def _open(self, rank: int) -> Source:
        with _told(rank):
            return Source(self._open_one(rank), rank)

    @property
    def bytes_read(self) -> int:
        return sum(source.image.bytes_read for source in self.opened)
