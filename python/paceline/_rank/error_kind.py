"""Whether an exception would come again at the next start of the script."""

import os
import subprocess

from paceline._base.launch import has_one_host
from paceline.errors import ArgumentError, PacelineError

# Words of errors of the network or of a device that are plain RuntimeErrors.
_OUTSIDE_WORDS = ("cuda", "nccl", "gloo", "cudnn", "cublas", "hip error", "connect", "timed out",
                  "timeout", "out of memory", "can't allocate", "dataloader worker")  # fmt: skip
# Modules whose errors, or whose frames on the way to an error, tell of the network or of a device.
_OUTSIDE = ("torch.distributed", "torch.cuda", "torch.multiprocessing", "torch.nn.parallel")
_OUTSIDE_KINDS = ("DistError", "DistBackendError", "DistNetworkError", "DistStoreError",
                  "AcceleratorError", "OutOfMemoryError")  # fmt: skip
_CHAIN_MAX = 16


def is_final(error: BaseException, *, has_stepped: bool) -> bool:
    """Whether no restart can mend it: `is_final(SyntaxError(…), has_stepped=False)`.

    True for the errors of paceline that say so and for a file of Python that cannot be compiled.
    Before the first step also for an argument that paceline refuses and, on one host, for a module
    that is missing. With several hosts, the module may be missing on one of them only.
    """
    if getattr(error, "is_final", False) is True:
        return True
    if isinstance(error, SyntaxError):
        # Text that is no file, such as "<string>", may come from the data.
        return error.filename is not None and os.path.isfile(error.filename)
    if isinstance(error, ModuleNotFoundError):
        return not has_stepped and has_one_host()
    return isinstance(error, ArgumentError) and not has_stepped


def is_repeatable(error: BaseException) -> bool:
    """Whether it comes from the script's own code, so that only another code or host mends it.

    False for errors of the operating system, of other processes, of torch.distributed and of
    devices, and for errors that these caused: `is_repeatable(KeyError("labels"))` is True.
    """
    if isinstance(error, PacelineError):
        return isinstance(error, ArgumentError) or error.is_final
    return isinstance(error, Exception) and not any(_is_from_outside(one) for one in _chain(error))


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what caused it, and what was handled when it was raised."""
    found: list[BaseException] = []
    ahead: list[BaseException | None] = [error]
    while ahead and len(found) < _CHAIN_MAX:
        one = ahead.pop()
        if one is None or any(one is known for known in found):
            continue
        found.append(one)
        ahead += [one.__cause__, None if one.__suppress_context__ else one.__context__]
        if isinstance(one, BaseExceptionGroup):
            ahead += one.exceptions
    return found


def _is_from_outside(error: BaseException) -> bool:
    if isinstance(error, OSError | MemoryError | EOFError | subprocess.SubprocessError):
        return True
    for kind in type(error).__mro__:
        if kind.__module__.startswith(_OUTSIDE) or (
            kind.__module__.startswith("torch") and kind.__name__ in _OUTSIDE_KINDS
        ):
            return True
    if not isinstance(error, RuntimeError):
        return False
    text = str(error).lower()
    return any(word in text for word in _OUTSIDE_WORDS) or _passes_outside(error)


def _passes_outside(error: BaseException) -> bool:
    at = error.__traceback__
    while at is not None:
        name = at.tb_frame.f_globals.get("__name__")
        if isinstance(name, str) and name.startswith(_OUTSIDE):
            return True
        at = at.tb_next
    return False
