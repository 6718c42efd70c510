"""paceline for PyTorch: all names of `paceline`, and checkpoints.

import paceline.torch as pl

ckpt = pl.Checkpointer("runs/gpt", keep=3)
state = {"model": model, "optimizer": optimizer}
for step in range(ckpt.restore(state), steps):
    train_step()
    ckpt.save(step, state)  # one memory copy
ckpt.close()
"""

import ctypes
import dataclasses
import os
import sys
import threading
from typing import cast

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from paceline._base import arguments
from paceline._base.wording import described
from paceline._checkpoint import script_names
from paceline._checkpoint.checkpoint import BaseCheckpointer
from paceline._checkpoint.script_names import *  # noqa: F403  # step, saved, phase …
from paceline._data.cut import CutBySpeed
from paceline._data.loader import Share
from paceline._data.order import ElasticDataset, ElasticMixture
from paceline._data.stream import Stream
from paceline._data.then import Then
from paceline._native import Device
from paceline._restore.loading import Loaded, load_with
from paceline._restore.restoring import Framework, Restoring
from paceline._state import own_ways, randomness, torch_flattened
from paceline._state.first_steps import FirstSteps
from paceline._state.save_plan import Box, Leaf, SavePlan, State
from paceline._state.stateful import value_of
from paceline._state.torch_device import TorchDevice
from paceline._state.torch_flattened import is_flattened
from paceline._state.torch_groups import regrouped
from paceline._state.torch_optimizer import (
    has_form_of_its_own,
    like_parameter,
    plan_optimizer,
    restore_optimizer,
)
from paceline._state.torch_state import (
    has_own_elements,
    is_sharded,
    is_told_replica,
    local_bytes,
    local_part,
    memory_of,
    module_tensors,
    stepped_parameters,
    with_frozen,
)
from paceline._state.torch_types import box_of, dtype_of, is_plain, is_savable, shape_of
from paceline._state.torch_wrappers import bare, loadable_state, plain_state
from paceline.errors import CheckpointError, DataError
from paceline.integrations.by_speed import gather_over, weigh_by_samples
from paceline.integrations.elastic_loader import ElasticLoader
from paceline.integrations.fixed_order import FixedOrderReduction
from paceline.integrations.leased_loader import LeasedLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paceline.numpy import NumPy

__all__ = [
    "Checkpointer",
    "CutBySpeed",
    "DataError",
    "ElasticDataset",
    "ElasticLoader",
    "ElasticMixture",
    "FixedOrderReduction",
    "LeasedLoader",
    "Share",
    "Stream",
    "Then",
    "gather_over",
    "load",
    "weigh_by_samples",
]
__all__ += script_names.__all__


class Checkpointer(BaseCheckpointer):
    """Saves every step to memory and some to `directory`, and restores the newest complete one.

    The state is a dict of modules, optimizers, objects with `state_dict` and `load_state_dict`,
    tensors, and plain values. The random states of Python, NumPy and torch are saved with it.

    Args:
        directory: a directory that all hosts see, or `s3://BUCKET/PREFIX`.
        keep: the number of newest checkpoints that stay in storage.
        every: how often a step goes to storage: `100` steps or `"30s"`. None: an interval from the
            cost of a checkpoint and the job's failure rate.
        replicated: True: all ranks hold the same tensors. None: detected for
            DistributedDataParallel.
        replicas: copies of each image in the memory of other hosts, 0 to 8. None: 1 if another host
            has room for it.
        overlap: False: `save` waits until a GPU has copied its tensors to this process's memory.
            True: instead, the GPU delays the next step of any `torch.optim.Optimizer` until the
            copy is done. Other code that writes to parameters calls `fence()` first.

    Raises:
        CheckpointError: the directory cannot be used.
        ArgumentError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int = 3,
        every: str | int | None = None,
        replicated: bool | None = None,
        replicas: int | None = None,
        overlap: bool = False,
    ) -> None:
        arguments.flag("Checkpointer", "overlap", overlap)
        super().__init__(
            directory, keep=keep, every=every, replicated=replicated, replicas=replicas
        )
        self._overlaps = overlap
        self._hook = register_optimizer_step_pre_hook(self._before_step) if overlap else None
        self._thread = threading.get_ident()
        self._first_steps = FirstSteps(self._expect)

    def fence(self) -> None:
        """Later work on this device waits until the last save has copied its tensors.

        Needed with `overlap=True` only, before parameters change without a torch.optim.Optimizer or
        in a CUDA graph, which calls no hooks. The calling thread does not wait. Without a save this
        does nothing.
        """
        self._check_process("fence")
        self._slots.fence()

    def close(self) -> None:
        self._check_process("close")
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        self._first_steps.end()
        super().close()

    def _before_step(self, *_: object) -> None:
        if self._pid == os.getpid():  # an optimizer may step in a forked child
            self.fence()

    def _expect(self, expected: int, parameter: torch.Tensor) -> bool:
        """Fill the slots for a first save of that size. False: try again later."""
        if self._pid != os.getpid() or self._thread != threading.get_ident():
            return False  # the connection to the keeper belongs to that thread
        if not self._is_closed:
            framework = cast("Torch", self._framework)
            self._slots.expect(expected, framework.device_for(parameter))
        return True

    def _make_framework(self) -> Framework:
        return Torch(TorchDevice())


def load(path: str | os.PathLike[str], state: State, *, strict: bool = True) -> Loaded:
    """Fill `state` from a checkpoint in storage, saved by any number of ranks.

    `load("runs/gpt", {"model": model}, strict=False)` takes the weights alone.

    Args:
        path: a Checkpointer's directory (its newest checkpoint is taken), or one checkpoint in it.
            From an object store, each process fetches all of it to a temporary directory.
        state: the dict to fill.
        strict: False: parts that do not fit are left out and listed in `left_out`.

    Returns:
        `Loaded`: the step, and lists of what was left out or replaced.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, or it does not fit. The state is
            unchanged, unless the checkpoint is damaged.
    """
    return load_with(Torch(), path, state, strict=strict)


class Torch:
    """The `Framework` of torch. A `reader` copies tensors on its device directly, so that a
    save needs no copy of them in this process's memory.
    """

    is_exact = False

    def __init__(self, reader: TorchDevice | None = None) -> None:
        self._reader = reader

    def device(self) -> Device | None:
        return None if self._reader is None else self._reader.native

    def device_for(self, parameter: torch.Tensor) -> Device | None:
        """The device that will copy this parameter itself, if there is one."""
        reads = self._reader is not None and self._reader.reads(local_part(parameter)[0])
        return self.device() if reads else None

    def stream(self) -> int:
        return 0 if self._reader is None else self._reader.stream()

    def tag(self, value: object) -> str | None:
        if isinstance(value, torch.Tensor):
            return None if is_flattened(value) else "$tensor"
        return "$array" if _arrays_of(value) is not None else None

    def note(self, value: object) -> tuple[str, object] | None:
        if isinstance(value, torch.Generator):
            return "$generator", [value.device.type, _bytes_of(value.get_state())]
        return torch_flattened.note(value) or _numpy_note(value)

    def revive(self, kind: str, content: object, there: object, work: Restoring) -> object:
        if torch_flattened.is_of(kind):
            return torch_flattened.revive(kind, content, there, work)
        if kind != "$generator":
            return _numpy_revived(kind, content, there, work)
        device, saved = cast("tuple[str, bytes]", content)
        is_there = isinstance(there, torch.Generator) and there.device.type == device
        generator = cast("torch.Generator", there) if is_there else torch.Generator()
        if not is_there and device != "cpu":
            work.replaced.append(f"a generator of {device} is bytes now: the state has none there")
            return saved
        work.after.append(lambda: _set_generator(generator, saved))
        return generator

    def leaf(
        self,
        key: str,
        tensor: object,
        container: dict[object, object] | None = None,
        name: object = None,
    ) -> Leaf:
        target = self.target(key, tensor, container, name)
        if not isinstance(tensor, torch.Tensor):
            return target
        local = cast("torch.Tensor", target.memory if target.live is None else target.live)
        if self._reader is None or not self._reader.reads(local):
            return target
        if is_plain(local):
            # Assigning to a parameter's `data` frees the old storage at once, so keep it.
            kept = local.untyped_storage()
            return dataclasses.replace(
                target, memory=local, live=None, is_on_device=True, kept=kept
            )
        memory = torch.empty_like(local, memory_format=torch.contiguous_format)
        return dataclasses.replace(target, memory=memory, is_on_device=True)

    def target(
        self,
        key: str,
        tensor: object,
        container: dict[object, object] | None = None,
        name: object = None,
    ) -> Leaf:
        if (arrays := _arrays_of(tensor)) is not None:
            return arrays.leaf(key, tensor)
        box = self.box(key, tensor)
        local, _offset = local_part(cast("torch.Tensor", tensor))
        is_parameter = isinstance(tensor, torch.nn.Parameter) and not is_told_replica(tensor)
        # Not detached, so that an assignment to a parameter's `data` is noticed.
        if local.device.type == "cpu" and is_plain(local):
            return Leaf(key, box, local, container, name, tensor, is_parameter=is_parameter)
        memory = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.is_cuda)
        return Leaf(
            key, box, memory, container, name, tensor, live=local, is_parameter=is_parameter
        )

    def box(self, key: str, tensor: object) -> Box:
        if (arrays := _arrays_of(tensor)) is not None:
            return arrays.box(key, tensor)
        return box_of(key, cast("torch.Tensor", tensor))

    def is_fillable(self, value: object) -> bool:
        if (arrays := _arrays_of(value)) is not None:
            return arrays.is_fillable(value)
        return isinstance(value, torch.Tensor) and is_savable(value) and has_own_elements(value)

    def extent(self, tensor: object) -> tuple[int, int]:
        if (arrays := _arrays_of(tensor)) is not None:
            return arrays.extent(tensor)
        return memory_of(cast("torch.Tensor", tensor))

    def is_same(self, leaf: Leaf, tensor: object) -> bool:
        if (arrays := _arrays_of(tensor)) is not None:
            return arrays.is_same(leaf, tensor)
        if tensor is leaf.found:
            return True
        # `state_dict` makes a new tensor object for the same memory each time.
        if not isinstance(tensor, torch.Tensor) or not isinstance(leaf.memory, torch.Tensor):
            return False
        known = leaf.memory
        return (
            leaf.live is None
            and not is_sharded(tensor)
            and tensor.data_ptr() == known.data_ptr()
            and tensor.shape == known.shape
            and tensor.dtype == known.dtype
            and is_plain(tensor)
            and not is_sharded(cast("torch.Tensor", leaf.found))
        )

    def formed(self, leaf: Leaf) -> object:
        if leaf.is_stepped and not isinstance(leaf.found, torch.nn.Parameter):
            return None  # an optimizer never changes the form of its state, which is most tensors
        local = leaf.memory if leaf.live is None else leaf.live
        return local if isinstance(local, torch.Tensor) else None

    def refresh(self, leaves: list[Leaf]) -> None:
        copied = [leaf for leaf in leaves if isinstance(leaf.live, torch.Tensor)]
        for leaf in leaves:
            if leaf.live is not None and (arrays := _arrays_of(leaf.live)) is not None:
                arrays.refresh([leaf])
        with torch.no_grad():
            for leaf in copied:
                live = cast("torch.Tensor", leaf.live)
                cast("torch.Tensor", leaf.memory).copy_(live, non_blocking=True)
        # Copies that stay on their device are ordered by its stream.
        for device in {
            cast("torch.Tensor", leaf.live).device for leaf in copied if not leaf.is_on_device
        }:
            if device.type == "cuda":
                torch.cuda.synchronize(device)

    def plan_entry(self, plan: SavePlan, key: str, value: object, state: State) -> bool:
        if isinstance(value, torch.nn.Module) and not _is_walked(bare(value, None)):
            by_optimizers = stepped_parameters(state)
            leaves = [
                dataclasses.replace(
                    self.leaf(f"{key}.{one.name}", one.tensor, one.container, one.key),
                    is_stepped=id(one.tensor) in by_optimizers,
                )
                for one in module_tensors(bare(value, plan), plan)
            ]
            plan.leaves.extend(with_frozen(leaves))
            return True
        if isinstance(value, Optimizer) and own_ways.own_state(key, value) is not None:
            plan_optimizer(self.leaf, plan, key, value, state)
            return True
        return False

    def restore_entry(self, work: Restoring, key: str, value: object, state: State) -> bool:
        # Hooks may be added at the first step, as FSDP's are, so the saved form decides.
        if isinstance(value, torch.nn.Module):
            module = bare(value, None)
            if _is_walked(module) and work.has_entry(key):
                return False
            for one in module_tensors(module, None):
                name = work.saved.name_of(f"{key}.{one.name}", older=f"{key}.{one.older}")
                if isinstance(one.tensor, torch.nn.Parameter) and not is_told_replica(one.tensor):
                    work.parameters.add(name)
                if is_flattened(one.tensor):
                    work.pass_over(name)
                    work.leave_out(f"{name} is {described(one.tensor)} now, and was saved as none")
                else:
                    work.want(name, one.tensor)
            if own_ways.loads_itself(module):
                work.after.append(lambda: own_ways.load_again(key, module))
            return True
        if isinstance(value, Optimizer) and not has_form_of_its_own(work, key, value):
            restore_optimizer(work, key, value, state)
            return True
        return False

    def inner(self, value: object) -> object:
        return bare(value, None) if isinstance(value, torch.nn.Module) else value

    def content(self, value: object) -> object:
        is_module = isinstance(value, torch.nn.Module)
        return plain_state(bare(value, None)) if is_module else value_of(value)

    def adapted(self, value: object, decoded: object, live: object, work: Restoring) -> object:
        """Gives a module's tensors the names of its wrappers. Reorders a scheduler's lists, which
        have one item for each parameter group of its optimizer, to the current order of groups.
        """
        if isinstance(value, torch.nn.Module):
            return loadable_state(value, decoded)
        order = work.orders.get(id(getattr(value, "optimizer", None)))
        return decoded if order is None else regrouped(decoded, live, *order)

    def tensor_for(
        self, box: Box, there: object, *, like: object = None, tag: str = "$tensor"
    ) -> object:
        if tag == "$array" and "numpy" in sys.modules:
            return _arrays().tensor_for(box, there)
        dtype, shape = dtype_of(box), shape_of(box)
        if isinstance(like, torch.Tensor):
            return like_parameter(dtype, shape, like)
        with torch.no_grad():
            if not isinstance(there, torch.Tensor) or there.is_meta:
                return torch.empty(shape, dtype=dtype)
            if is_sharded(there) and tuple(there.shape) == shape:
                return torch.empty_like(there, dtype=dtype)
            return torch.empty(shape, dtype=dtype, device=there.device)

    def write_back(self, leaf: Leaf) -> None:
        if (arrays := _arrays_of(leaf.live)) is not None:
            arrays.write_back(leaf)
            return
        with torch.no_grad():
            cast("torch.Tensor", leaf.live).copy_(cast("torch.Tensor", leaf.memory))

    def random_state(self) -> dict[str, object]:
        state: dict[str, object] = {"torch": _bytes_of(torch.get_rng_state())}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = _bytes_of(torch.cuda.get_rng_state())
        if "numpy" in sys.modules:
            state["numpy"] = randomness.numpy_state()
        return state

    def set_random_state(self, state: dict[str, object]) -> None:
        if "torch" in state:
            torch.set_rng_state(_tensor_of(cast("bytes", state["torch"])))
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(_tensor_of(cast("bytes", state["cuda"])))
        if "numpy" in state:
            randomness.set_numpy_state(state["numpy"])

    def is_replica(self, state: State) -> bool:
        return any(isinstance(value, DistributedDataParallel) for value in state.values())

    def expected_bytes(self, state: State) -> int:
        """The bytes that a save needs once every optimizer has its state."""
        total = 0
        for value in state.values():
            if isinstance(value, torch.nn.Module):
                total += sum(local_bytes(t) for t in value.state_dict(keep_vars=True).values())
            if isinstance(value, Optimizer):
                parameters = [p for group in value.param_groups for p in group["params"]]
                copies = 1 if isinstance(value, torch.optim.SGD) else 2
                total += sum(copies * local_bytes(p) + 64 for p in parameters)
        return total + (2 << 20)


def _is_walked(module: torch.nn.Module) -> bool:
    """Whether each save asks for the state_dict of this bare module."""
    tensors = (*module.parameters(), *module.buffers())
    return own_ways.saves_itself(module) or any(map(is_flattened, tensors))


def _set_generator(generator: torch.Generator, saved: bytes) -> None:
    try:
        generator.set_state(_tensor_of(saved))
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(
            what="the state of a torch.Generator cannot be set",
            where="Checkpointer.restore",
            why=str(error),
            fix="use the version of torch that saved it, or leave the generator out of the state",
        ) from error


def _arrays() -> "NumPy":
    from paceline.numpy import NumPy  # torch may be installed without NumPy

    return NumPy()


def _arrays_of(value: object) -> "NumPy | None":
    """The NumPy framework if `value` is a NumPy array, else None."""
    numpy = sys.modules.get("numpy")
    return _arrays() if numpy is not None and isinstance(value, numpy.ndarray) else None


def _numpy_note(value: object) -> tuple[str, object] | None:
    numpy = sys.modules.get("numpy")
    is_theirs = numpy is not None and isinstance(value, numpy.random.Generator)
    return _arrays().note(value) if is_theirs else None


def _numpy_revived(kind: str, content: object, there: object, work: Restoring) -> object:
    return _arrays().revive(kind, content, there, work) if "numpy" in sys.modules else content


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.cpu()  # bytes(storage) would copy byte by byte through Python
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())


def _tensor_of(text: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)
