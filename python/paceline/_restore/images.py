"""The images that a state is restored from, opened when they are needed."""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from paceline._native import Image, Manifest
from paceline._state import notes
from paceline._state.save_plan import Box, Shape

# Address and size in bytes of memory to write to. The native module compares the size with the
# data, so a wrong type or shape is an error and overwrites nothing.
Memory = tuple[int, int]
# Index of a box, begin in the box, extent, target memory, its shape, begin in the target.
Region = tuple[int, Shape, Shape, Memory, Shape, Shape]


class UnreadableError(Exception):
    """An image is gone, damaged, or cannot be read.

    `is_away`: it cannot be read now, so nothing is known about its content. `is_all_away`: the
    whole storage does not answer. `is_denied`: it is away because this process has no rights to
    read it. `rank`: the image's rank; None: the checkpoint's own files.
    """

    def __init__(
        self,
        why: str,
        *,
        is_away: bool = False,
        is_all_away: bool = False,
        is_denied: bool = False,
        rank: int | None = None,
    ) -> None:
        self.is_away = is_away
        self.is_denied = is_denied
        self.is_all_away = is_all_away
        self.rank = rank
        super().__init__(why)


@contextmanager
def _told(rank: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Only the agent returns EAGAIN, after it has asked the storage as a whole.
        is_all_away = error.errno == errno.EAGAIN
        raise UnreadableError(
            str(error),
            is_away=True,
            is_all_away=is_all_away,
            is_denied=isinstance(error, PermissionError),
            rank=rank,
        ) from error
    except (LookupError, RuntimeError, notes.NotesError) as error:
        raise UnreadableError(str(error), rank=rank) from error


@dataclass(frozen=True)
class SharedReading:
    """Hosts read a checkpoint together: each reads a share of the chunks for all.

    `socket`: the agent that delivers chunks. `is_for_all`: the world had another size, so no rank
    has a file of its own. `is_own_too`: the rank's own file is no closer than other files.
    """

    socket: str
    is_for_all: bool
    is_own_too: bool


class Source:
    """One rank's image: its boxes by tensor name."""

    def __init__(self, image: Image, rank: int) -> None:
        self.image = image
        self.rank = rank
        self.notes_text: bytes | None = None  # notes of another rank to use instead
        boxes = image.boxes()
        self.boxes = {
            key: (index, Box(dtype, tuple(shape), tuple(offset), ()))
            for index, (key, dtype, shape, offset, _size) in enumerate(boxes)
        }
        self.sizes = {key: size for key, _dtype, _shape, _offset, size in boxes}  # in bytes

    def notes(self) -> dict[str, object]:
        """The notes of that rank."""
        with _told(self.rank):
            text = self.image.notes if self.notes_text is None else self.notes_text
            return notes.loads(text, rank=self.rank)

    def restore(self, wholes: list[tuple[int, Memory]], regions: list[Region]) -> None:
        """Copy whole boxes, and parts of boxes, to memory. A box is in only one of the lists."""
        with _told(self.rank):
            self.image.restore(wholes, regions)


class Images:
    """One step's images by rank: `images.own` is closest to this rank, `open_others()` the rest.

    Opening an image reads and checks its header. Others are opened only if a part of them is
    needed: in a world of another size or layout.
    """

    def __init__(self, ranks: Sequence[int], own: int, open_one: Callable[[int], Image]) -> None:
        nearest = own if own in ranks else ranks[0]
        # Ranks begin at different places, so the holders of equal boxes share the reads.
        self._rest = [rank for rank in ranks if rank > nearest]
        self._rest += [rank for rank in ranks if rank < nearest]
        self._open_one = open_one
        # Set if other ranks need parts of that file, too: it is then read through the shared
        # reader.
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
        """The images in a checkpoint's folder. `fetch_all` fetches the other ranks' files to it.

        `read_once`: a rank with the same tensors as `own`, whose file one host reads for all.
        `shared`: how hosts share the reading of files that several of them need.
        """
        with _told():
            manifest = Manifest.read(folder)
        opened: set[int] = set()
        nearest = own if read_once is None else read_once[0]
        # In a world of the same size a rank reads its own file directly.
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
            # The first image is there already. A second one means that the others are needed.
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
        """Open the images of all other ranks. False: they were open, or there are none."""
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
