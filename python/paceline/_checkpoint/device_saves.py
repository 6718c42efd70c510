"""A rank's saves of tensors on a device: the training begins them, a thread finishes them."""

import threading
from collections.abc import Callable

from paceline._native import Device, DeviceSaver, SavedStep, Saver
from paceline._state.save_planner import Planned


class DeviceSaves:
    """`saves.begin(…)`, then `await_copied()` or `fence()` before the tensors change.

    A save is complete when its thread has ended, which `settle()` waits for. The thread calls
    `sealed` on success. One save at a time. `stream()` is the training's current stream.
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
        """Map and pin the memory of all slots; runs in its own thread."""
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
        """Start copying every tensor. False: no slot is free."""
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
            # The plan keeps the tensors alive while they are copied. Not a daemon thread: the
            # interpreter waits for it at its end, so the last save completes.
            self._thread = threading.Thread(target=self._finish, args=(planned,), name="save")
            self._thread.start()
        return begun

    def await_copied(self) -> None:
        """Wait until the last save has copied all tensors."""
        self._saver.await_copied()

    def fence(self) -> None:
        """Later work on the training's stream waits for the copies; this call does not."""
        if self._thread is not None:
            self._saver.fence(self._stream())

    def settle(self) -> None:
        """Wait until the last save is complete. Raise its error, once."""
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
        except Exception as error:  # settle raises it in the training's thread
            self._error = error
