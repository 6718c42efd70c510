"""This rank's slots in memory: asked for once, filled with memory in the background, replaced by
larger ones."""

import atexit
import logging
import threading
import warnings
from collections.abc import Callable
from typing import cast

from paceline._native import Layout, LivePlan, Saver
from paceline.checkpoint_link import Fields, Link
from paceline.plan import CheckpointError, Place

_NOTES_GROWTH_BYTES = 1 << 16


class Slots:
    """`slots.prepare(bytes)` begins, `slots.save(…)` makes what room it still needs.

    `hello(bytes)` is how this rank introduces itself to its keeper, `where` is for messages.
    """

    def __init__(self, link: Link, rank: int, hello: Callable[[int], Fields], where: str) -> None:
        self._link = link
        self._rank = rank
        self._hello = hello
        self._where = where
        self._saver: Saver | None = None

    def prepare(self, image_bytes: int) -> None:
        """Make the arena. Its memory, which the kernel has to find and clear, comes behind."""
        if self._saver is None:
            self._saver = self._open(image_bytes)

    def save(
        self,
        layout: Layout,
        live: LivePlan,
        text: bytes,
        place: Place,
        step: int,
        *,
        is_replica: bool,
    ) -> bool:
        """Copy the tensors and the notes into a slot. False: no slot may be taken now."""
        saver = self._saver_for(layout.file_bytes + len(text))
        try:
            return saver.save(
                layout, live, text, place.generation, step, place.world_size, is_replica
            )
        except OSError as error:
            raise self._no_memory(error) from error

    def _saver_for(self, image_bytes: int) -> Saver:
        image_bytes += _NOTES_GROWTH_BYTES
        if self._saver is None or self._saver.image_bytes_max < image_bytes:
            if self._saver is not None:
                self._saver.stop_reserving()
            self._saver = None  # gives its lock back, for a larger one
            self._saver = self._open(image_bytes)
        return self._saver

    def _open(self, image_bytes: int) -> Saver:
        image_bytes += image_bytes // 64
        self._link.reopen(self._hello(image_bytes))
        opened = self._link.opened
        if spilled := opened.get("spilled"):
            logging.getLogger("paceline").warning(
                "rank %d's checkpoints lie on a disk, in %s, and saving them takes longer: %s",
                self._rank, opened["arena"], spilled)
        try:
            saver = Saver.open(
                str(opened["arena"]),
                str(opened["job_id"]),
                str(opened["boot_id"]),
                self._rank,
                image_bytes,
                cast("int", opened["slots"]),
            )
        except (OSError, RuntimeError) as error:
            raise self._no_memory(error) from error
        thread = threading.Thread(target=_reserve, args=(saver,), name="arena", daemon=True)
        _reserving[thread] = saver
        thread.start()
        self._link.tell({"op": "ready"})
        return saver

    def _no_memory(self, error: Exception) -> CheckpointError:
        return CheckpointError(
            what="there is no memory for this rank's checkpoints",
            where=self._where,
            why=str(error),
            fix="fewer ranks on this host, a larger /dev/shm, or less state",
        )


# Threads that find memory. An interpreter that ends while one of them is in our C++ would take it
# down from within, and the process with it (std::terminate), so each is told to end first.
_reserving: dict[threading.Thread, Saver] = {}


@atexit.register
def _stop_reserving() -> None:
    for thread, saver in list(_reserving.items()):
        saver.stop_reserving()
        thread.join()


def _reserve(saver: Saver) -> None:
    """Two slots are enough to go on with; with fewer, the next save says so."""
    try:
        saver.reserve()
    except OSError as error:
        if saver.reserved_slots >= 2:
            warnings.warn(
                f"checkpoints have {saver.reserved_slots} slots in memory: {error}", stacklevel=1
            )
    finally:
        _reserving.pop(threading.current_thread(), None)
