"""paceline for NumPy: the same Checkpointer over dicts of arrays, without any framework.

    import paceline.numpy as pl

    ckpt = pl.Checkpointer("runs/fit", keep=3)
    state = {"weights": weights, "epoch": 0}     # arrays, and plain values
    for step in range(ckpt.restore(state), steps):
        state["weights"] -= rate * gradient(state["weights"])
        ckpt.save(step, state)                   # one memory copy
    ckpt.close()
"""

import os
from typing import Any, cast

import numpy

from paceline._base.wording import described
from paceline._checkpoint import script_names
from paceline._checkpoint.checkpoint import BaseCheckpointer
from paceline._checkpoint.script_names import *  # noqa: F403  # step, saved, phase …
from paceline._restore.loading import Loaded, load_with
from paceline._restore.restoring import Framework, Restoring
from paceline._state import randomness
from paceline._state.save_plan import Box, Leaf, SavePlan, State
from paceline._state.stateful import value_of
from paceline.errors import CheckpointError

__all__ = ["Checkpointer", "load"]
__all__ += script_names.__all__

# The last three are types of ml_dtypes, which registers them with NumPy.
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
# Types without a name in the file. A complex number is saved as two reals on one more axis, and
# ml_dtypes' types as bytes.
_ML_KINDS = ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
_KINDS = {"complex64": ("complex64", "F32"), "complex128": ("complex128", "F64")}
_KINDS |= {kind: (kind, "U8") for kind in _ML_KINDS}
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_FROM_NAME = {name: dtype for dtype, name in _NAMES.items()}
Array = numpy.ndarray[Any, Any]


class Checkpointer(BaseCheckpointer):
    """Saves every step to memory and some to `directory`, and restores the newest complete one.

    The state is a dict of arrays, `numpy.random.Generator`s, plain values and containers of them.
    `restore` fills an array in place if shape and type match the saved ones. Other values are
    replaced, so read them from the state again.

    Args:
        directory: a directory that all hosts see, or `s3://BUCKET/PREFIX`.
        keep: the number of newest checkpoints that stay in storage.
        every: how often a step goes to storage: `100` steps or `"30s"`. None: an interval from the
            cost of a checkpoint and the job's failure rate.
        replicated: True: all ranks hold the same arrays. None: False.
        replicas: copies of each image in the memory of other hosts, 0 to 8. None: 1 if another host
            has room for it.

    Raises:
        CheckpointError: the directory cannot be used.
        ArgumentError: an argument has a wrong type or value.
    """

    def _make_framework(self) -> Framework:
        return NumPy()


def load(path: str | os.PathLike[str], state: State, *, strict: bool = True) -> Loaded:
    """Fill `state` from a checkpoint in storage: `load("runs/fit", {"weights": None})`.

    Args:
        path: a Checkpointer's directory (its newest checkpoint is taken), or one checkpoint in it.
        state: the dict to fill. None as a value takes whatever was saved.
        strict: False: parts that do not fit are left out and listed in `left_out`.

    Returns:
        `Loaded`: the step, and lists of what was left out or replaced.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, or it does not fit.
    """
    return load_with(NumPy(), path, state, strict=strict)


class _Memory:
    """An array in the form that the native module expects."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def data_ptr(self) -> int:
        return cast("int", self.array.__array_interface__["data"][0])


class NumPy:
    """The `Framework` of NumPy."""

    is_exact = True  # the arrays are the model: another type or shape is an error

    def tag(self, value: object) -> str | None:
        return "$tensor" if isinstance(value, numpy.ndarray) else None

    def note(self, value: object) -> tuple[str, object] | None:
        if not isinstance(value, numpy.random.Generator):
            return None
        return "$numpy_generator", value.bit_generator.state

    def revive(self, kind: str, content: object, there: object, work: Restoring) -> object:
        if kind != "$numpy_generator":
            work.replaced.append(f"a value of torch's kind {kind} is plain values now")
            return content
        name = str(cast("dict[str, object]", content)["bit_generator"])
        generator = there
        if not _is_generator(there, name):
            if name not in _BIT_GENERATORS:
                raise ValueError(f"{name} is not a bit generator of NumPy")
            generator = numpy.random.Generator(getattr(numpy.random, name)(0))
        bits = cast("numpy.random.Generator", generator).bit_generator
        work.after.append(lambda: setattr(bits, "state", content))
        return generator

    def box(self, key: str, tensor: object) -> Box:
        array = cast("Array", tensor)
        kind, name = _KINDS.get(array.dtype.name, ("", _NAMES.get(array.dtype.name, "")))
        # Subclasses are refused, because a mask or a unit would be lost.
        is_known = type(array) in (numpy.ndarray, numpy.memmap, numpy.matrix)
        if not name or not is_known:
            what = f"an array of {array.dtype}" if is_known else described(array)
            raise CheckpointError(
                what=f"a checkpoint cannot hold {key}",
                where="the state",
                why=f"it is {what}",
                fix="save it as arrays of numbers; a masked one as its data and its mask",
                is_final=True,
            )
        shape = tuple(array.shape) + ((2,) if array.dtype.kind == "c" else ())
        return Box(name, shape, (0,) * len(shape), shape, kind)

    def is_fillable(self, value: object) -> bool:
        return (
            isinstance(value, numpy.ndarray)
            and (value.dtype.name in _NAMES or value.dtype.name in _KINDS)
            and type(value) in (numpy.ndarray, numpy.memmap, numpy.matrix)
            and value.flags.writeable
            and all(
                step != 0 or size < 2
                for step, size in zip(value.strides, value.shape, strict=True)
            )
        )

    def extent(self, tensor: object) -> tuple[int, int]:
        array = cast("Array", tensor)
        if array.size == 0:
            return 0, 0
        at = cast("int", array.__array_interface__["data"][0])
        spans = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
        before, after = (sum(f(0, span) for span in spans) for f in (min, max))
        return at + before, at + after + array.itemsize

    def leaf(self, key: str, tensor: object) -> Leaf:
        array = cast("Array", tensor)
        box = self.box(key, array)
        if array.flags.c_contiguous and array.dtype.isnative:
            return Leaf(key, box, _Memory(array), found=array)
        native = numpy.empty(array.shape, array.dtype.newbyteorder("="))
        return Leaf(key, box, _Memory(native), found=array, live=array)

    def target(self, key: str, tensor: object) -> Leaf:
        return self.leaf(key, tensor)

    def device(self) -> None:
        return None

    def stream(self) -> int:
        return 0

    def content(self, value: object) -> object:
        return value_of(value)

    def is_same(self, leaf: Leaf, tensor: object) -> bool:
        if tensor is not leaf.found or self.box(leaf.key, tensor) != leaf.box:
            return False
        array = cast("Array", tensor)
        return leaf.live is not None or (array.flags.c_contiguous and array.dtype.isnative)

    def formed(self, leaf: Leaf) -> object:
        return None

    def refresh(self, leaves: list[Leaf]) -> None:
        for leaf in leaves:
            if leaf.live is not None:
                numpy.copyto(cast("_Memory", leaf.memory).array, cast("Array", leaf.live))

    def write_back(self, leaf: Leaf) -> None:
        numpy.copyto(cast("Array", leaf.live), cast("_Memory", leaf.memory).array)

    def plan_entry(self, plan: SavePlan, key: str, value: object, state: State) -> bool:
        if not isinstance(value, numpy.random.Generator):
            return False
        plan.values[key] = lambda: value.bit_generator.state
        return True

    def inner(self, value: object) -> object:
        return value

    def restore_entry(self, work: Restoring, key: str, value: object, state: State) -> bool:
        if not isinstance(value, numpy.random.Generator):
            return False
        saved = work.entry(key)
        if saved is not None:
            self._restore_generator(work, key, saved, value, state)
        return True

    def _restore_generator(
        self,
        work: Restoring,
        key: str,
        saved: object,
        value: numpy.random.Generator,
        state: State,
    ) -> None:
        written = cast("dict[str, object]", saved) if isinstance(saved, dict) else {}
        own = value.bit_generator.state
        name = written.get("bit_generator")
        there = own if name == own["bit_generator"] else None
        # paceline.torch saves a generator as a tagged value, `{"$numpy_generator": …}`. This module
        # does so only within containers.
        found = work.decoded(key, saved, value if "$numpy_generator" in written else there)
        if isinstance(found, dict) and "bit_generator" in found:
            work.compare(key, lambda: own, cast("object", found))
            found = self.revive("$numpy_generator", cast("object", found), value, work)
        if not isinstance(found, numpy.random.Generator):
            work.leave_out(f"{key} was saved as {described(found)}, not as a generator")
        elif found is not value:
            now, was = type(found.bit_generator).__name__, type(value.bit_generator).__name__
            work.replaced.append(f"{key} is a new generator: it was saved as {now}, not {was}")
            work.after.append(lambda: state.__setitem__(key, found))

    def adapted(self, value: object, decoded: object, live: object, work: Restoring) -> object:
        return decoded

    def tensor_for(
        self, box: Box, there: object, *, like: object = None, tag: str = "$tensor"
    ) -> object:
        if box.kind in ("complex64", "complex128"):
            return numpy.empty(box.shape[:-1], box.kind)
        name = _FROM_NAME[box.dtype]
        if box.kind in _ML_KINDS or name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            import ml_dtypes  # pyright: ignore[reportMissingImports]

            return numpy.empty(box.shape, getattr(ml_dtypes, box.kind or name))
        return numpy.empty(box.shape, name)

    def random_state(self) -> dict[str, object]:
        return {"numpy": randomness.numpy_state()}

    def set_random_state(self, state: dict[str, object]) -> None:
        if "numpy" in state:
            randomness.set_numpy_state(state["numpy"])

    def expected_bytes(self, state: State) -> int:
        return 0

    def is_replica(self, state: State) -> bool:
        return False


def _is_generator(value: object, name: str) -> bool:
    return (
        isinstance(value, numpy.random.Generator)
        and value.bit_generator.state["bit_generator"] == name
    )
