"""This rank's slots in memory. Made once, mapped in the background, and replaced by larger
ones when an image outgrows them.
"""

import atexit
import contextlib
import errno
import logging
import threading
import warnings
from collections.abc import Callable
from typing import TypeVar, cast

from paceline._checkpoint.device_saves import DeviceSaves
from paceline._checkpoint.link import Fields, Link
from paceline._native import Device, SavedStep, Saver
from paceline._state.save_planner import Planned
from paceline.errors import CheckpointError

T = TypeVar("T")

_NOTES_GROWTH_BYTES = 1 << 16
_WASTE_BYTES = 64 << 20  # a guess may be too large by this much, beside half of it
_SLOTS = 3


class Slots:
    """Call `slots.prepare(bytes)` first; `slots.save(…)` enlarges the slots if needed.

    `hello(bytes)` makes this rank's first message to its keeper. `where` is for messages.
    `stream()` is the current stream of the training's device.

    A thread finishes a save from a device and reports it to the keeper over the link. So call
    `settle` before another save and before any other use of the link.
    """

    def __init__(
        self,
        link: Link,
        rank: int,
        hello: Callable[[int], Fields],
        where: str,
        stream: Callable[[], int],
    ) -> None:
        self._link = link
        self._rank = rank
        self._hello = hello
        self._where = where
        self._stream = stream
        self._saver: Saver | None = None
        self._is_guessed = False  # `_saver` is for a size that no save has shown yet
        self._is_new = False  # this object made the arena of `_saver`
        self._device_saves: DeviceSaves | None = None  # the device saves of `_saver`

    def prepare(self, planned: Planned, image_bytes: int) -> None:
        """Make the arena. Its memory is mapped and cleared in the background."""
        if self._saver is None:
            self._saver = self._open(image_bytes, planned.device)
            self._is_guessed = True

    def expect(self, image_bytes: int, device: Device | None) -> None:
        """The same, for a size of which only the optimizers are known. Never fails.

        Nothing is done if there was a save, if the slots are large enough, or if memory has no
        room for all slots of that size: then the first save asks for what it needs.
        """
        before = self._saver
        if before is not None:
            is_enough = before.image_bytes_max >= image_bytes + _NOTES_GROWTH_BYTES
            # Images of an earlier process are this rank's newest until its first save.
            if is_enough or not self._is_guessed or not self._is_new:
                return
        with contextlib.suppress(CheckpointError):
            self.close()
            self._saver = self._open(image_bytes + _NOTES_GROWTH_BYTES, device, needs_all=True)
            self._is_guessed = True

    def save(
        self,
        planned: Planned,
        text: bytes,
        saved: SavedStep,
        world_size: int,
        *,
        is_replica: bool,
    ) -> bool:
        """Copy the tensors and the notes into a slot. False: no slot is free.

        Tensors on a device may still be copied then: call `await_copied` or `fence` next.
        """
        saver = self._saver_for(planned, planned.layout.file_bytes + len(text))
        try:
            if planned.device is not None:
                saves = self._on_device(saver, planned.device)
                return self._told(
                    lambda: saves.begin(planned, text, saved, world_size, is_replica=is_replica)
                )
            is_saved = saver.save(
                planned.layout,
                planned.live,
                text,
                saved,
                world_size,
                is_replica,
            )
        except OSError as error:
            raise self._no_memory(error) from error
        if is_saved:
            self._tell_sealed()
        return is_saved

    def await_copied(self) -> None:
        """Wait until the last save has copied all tensors from the device."""
        if self._device_saves is not None:
            self._told(self._device_saves.await_copied)

    def fence(self) -> None:
        """Later work on the device waits for the copies; this call does not."""
        if self._device_saves is not None:
            self._told(self._device_saves.fence)

    def settle(self) -> None:
        """Wait until the last save is complete. Raises its error."""
        if self._device_saves is not None:
            self._told(self._device_saves.settle)

    def close(self) -> None:
        """Release the arena's lock, so that another process may save here."""
        if self._device_saves is not None:
            with contextlib.suppress(RuntimeError):
                self._device_saves.settle()
        saver, self._saver = self._saver, None
        if saver is not None:
            _stop_filling(saver)
        self._device_saves = None  # it unpins the memory
        if saver is not None:
            _open_savers.remove(saver)
            saver.give_back_unused(removes=True)

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except RuntimeError as error:
            raise CheckpointError(
                what="a step could not be copied from the device",
                where=self._where,
                why=str(error),
                fix="earlier saves are complete; if the device has failed, the kernel's log "
                    "(dmesg) says so",
            ) from error

    def _on_device(self, saver: Saver, device: Device) -> DeviceSaves:
        if self._device_saves is None:
            self._device_saves = DeviceSaves(saver, device, self._stream, self._tell_sealed)
        return self._device_saves

    def _tell_sealed(self) -> None:
        self._link.tell({"op": "sealed"})

    def _saver_for(self, planned: Planned, image_bytes: int) -> Saver:
        image_bytes += _NOTES_GROWTH_BYTES
        saver = self._saver
        if saver is not None and saver.image_bytes_max >= image_bytes:
            is_wasteful = saver.image_bytes_max > 2 * image_bytes + _WASTE_BYTES
            if not (is_wasteful and self._is_guessed and self._is_new):
                self._is_guessed = False
                return saver
        self.close()  # for one of the right size
        self._is_guessed = False
        self._saver = self._open(image_bytes, planned.device)
        return self._saver

    def _open(
        self, image_bytes: int, device: Device | None, *, needs_all: bool = False
    ) -> Saver:
        """`needs_all`: fail if not all slots find room in memory."""
        image_bytes += image_bytes // 64
        self._link.reopen(self._hello(image_bytes))
        opened = self._link.opened
        if needs_all and ("spilled" in opened or cast("int", opened["slots"]) < _SLOTS):
            raise self._no_memory(MemoryError("not all slots"))
        if spilled := opened.get("spilled"):
            logging.getLogger("paceline").warning(
                "images of rank %d are on a disk, in %s, because memory has no room; saving "
                "takes longer: %s",
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
        self._is_new = saver.reserved_slots == 0
        _open_savers.append(saver)
        saves = None if device is None else self._on_device(saver, device)
        thread = threading.Thread(target=_reserve, args=(saver, saves), name="arena", daemon=True)
        _reserving[thread] = saver
        thread.start()
        self._link.tell({"op": "ready"})
        return saver

    def _no_memory(self, error: Exception) -> CheckpointError:
        fix = "fewer ranks on this host, a larger /dev/shm, or less state"
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            fix = "ulimit -f unlimited (RLIMIT_FSIZE): it limits files in memory, too"
        return CheckpointError(
            what="there is not enough memory for this rank's checkpoints",
            where=self._where,
            why=str(error),
            fix=fix,
        )


# Savers of this process that no Slots has closed.
_open_savers: list[Saver] = []
# Threads that map memory. If the interpreter ends while such a thread is in C++, the thread is
# unwound there and the process aborts (std::terminate). So each is told to stop first.
_reserving: dict[threading.Thread, Saver] = {}


def _stop_filling(saver: Saver) -> None:
    """Wait for the thread: it would close the lock's file later and so release the next lock."""
    saver.stop_reserving()
    for thread in [one for one, its in _reserving.items() if its is saver]:
        thread.join()


@atexit.register
def _stop_reserving() -> None:
    for saver in set(_open_savers) | set(_reserving.values()):
        _stop_filling(saver)
        saver.give_back_unused(removes=False)  # a later exit handler may save


def _reserve(saver: Saver, saves: DeviceSaves | None) -> None:
    """Map the slots. Two are enough to go on; with fewer, the next save reports the error."""
    try:
        try:
            saver.reserve() if saves is None else saves.reserve()
        except RuntimeError as error:
            text = f"the device cannot write into this rank's memory; saves take longer: {error}"
            warnings.warn(text, stacklevel=1)
            saver.reserve()
    except OSError as error:
        if saver.reserved_slots >= 2:
            warnings.warn(
                f"there is memory for only {saver.reserved_slots} images of this rank: {error}",
                stacklevel=1,
            )
    finally:
        _reserving.pop(threading.current_thread(), None)
