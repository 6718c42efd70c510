"""A rank's saves of tensors that lie on a device: begun by the training, finished beside it."""

import threading
from collections.abc import Callable

from paceline._native import Device, DeviceSaver, SavedStep, Saver
from paceline._state.save_planner import Planned


class DeviceSaves:
    """`saves.begin(…)`, then the training goes on behind `await_copied()` or `fence()`.

    A save is whole when its thread has ended, which `settle()` waits for; `sealed` is called there
    when it succeeded. One save at a time. `stream()` is the training's present stream.
    """

    def __init__(
        self, saver: Saver, device: Device, stream: Callable[[], int], sealed: Callable[[], None]
    ) -> None:
        self._saver = DeviceSaver(saver, device)
        self._stream = stream
        self._sealed = sealed
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def reserve(self) -> None:
        """Find the memory of all slots, and pin it; in a thread of its own."""
        self._saver.reserve()

    def begin(
        self,
        planned: Planned,
        text: bytes,
        saved: SavedStep,
        world_size: int,
        *,
        is_replica: bool,
    ) -> bool:
        """Order the copy of every tensor. False: no slot may be taken now."""
        self.settle()
        begun = self._saver.begin(
            planned.layout,
            planned.live,
            planned.places,
            text,
            saved,
            world_size,
            is_replica,
            self._stream(),
        )
        if begun:
            # The plan holds what is being copied, whatever the script lets go meanwhile. No daemon:
            # an interpreter that ends waits, so the last save of a script is whole.
            self._thread = threading.Thread(target=self._finish, args=(planned,), name="save")
            self._thread.start()
        return begun

    def await_copied(self) -> None:
        """Until no tensor of the last save is read any more."""
        self._saver.await_copied()

    def fence(self) -> None:
        """What the training gives its device from now on runs after that; nobody waits here."""
        if self._thread is not None:
            self._saver.fence(self._stream())

    def settle(self) -> None:
        """Until the last save is whole. Raises what kept it from that, once."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _finish(self, _planned: Planned) -> None:
        try:
            self._saver.finish()
            self._sealed()
        except Exception as error:  # told by settle, in the training's thread
            self._error = error
