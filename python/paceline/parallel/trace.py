"""One forward pass on fake tensors: what each layer computes, saves and returns.

The parameters of the model are replaced by fake ones while the pass runs, so neither their values
nor their device matter: a model on the meta device gives the same numbers.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from torch.utils.flop_counter import FlopCounterMode

from paceline._data.fingerprint import kept_chance
from paceline.parallel import batch as batches
from paceline.parallel.batch import Loss
from paceline.parallel.errors import PlanError
from paceline.parallel.layers import Layers
from paceline.parallel.selective import Keeping, kept_calls

_LIBRARIES = tuple(os.path.dirname(one) + os.sep for one in (torch.__file__, __file__))
# The two sizes of batches whose difference is the share of a sample. With one sample, dimensions
# of size 1 would be taken for ones that are spread.
FEW, MORE = 2, 4


@dataclass(frozen=True, slots=True)
class Form:
    """Shape and type of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Form":
        return cls(tuple(tensor.shape), tensor.dtype, tensor.requires_grad)

    def scaled(self, more: "Form", samples: int) -> "Form":
        """The form with that many samples. This form is that of two samples, `more` that of
        four.
        """
        shape = tuple(
            one if one == other else one * samples // FEW
            for one, other in zip(self.shape, more.shape, strict=True)
        )
        return replace(self, shape=shape)

    @property
    def bytes(self) -> int:
        size = self.dtype.itemsize
        for one in self.shape:
            size *= one
        return size


@dataclass(slots=True)
class Seen:
    """The trace of a layer in one forward pass."""

    flops: int = 0
    saved: int = 0  # bytes saved for the backward pass, without parameters; each storage once
    kept: int = 0  # bytes that selective recomputation keeps beside the layer's input
    again: int = 0  # of `flops`, those that it computes again
    output: Form | None = None  # None: it is not one tensor
    inputs: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})  # with a Form for each tensor
    calls: int = 0
    amiss: str = ""  # why the model computes more than its layers; "" if it does not


def computing(precision: str, device: str) -> Any:
    """The context in which a forward pass runs."""
    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else nullcontext()


def resized(tree: Any, old: int, new: int) -> Any:
    """The batch with fake tensors, and with `new` samples instead of `old`."""

    def make(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        shape = list(one.shape)
        if shape and shape[0] == old:
            shape[0] = new
        return torch.empty(shape, dtype=one.dtype, device="cpu")

    return tree_map(make, tree)


def trace(
    model: nn.Module,
    layers: Layers,
    example: object,
    loss: Loss,
    *,
    precision: str,
    samples: int,
) -> list[Seen]:
    """Run the model and the loss on that many fake samples. Returns one `Seen` for each layer.

    Operations between two layers count to the layer before them.
    """
    inputs, targets = batches.split(example, "describe")
    size = batches.samples(inputs, "describe")
    was_training = model.training
    try:
        with ExitStack() as stack:
            stack.enter_context(kept_chance())
            stack.enter_context(torch.device("cpu"))  # in a planning run the default is meta
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            stack.enter_context(torch.enable_grad())
            model.train()
            watch = stack.enter_context(_Watch(model, layers))
            stack.enter_context(computing(precision, "cpu"))
            called = (resized(inputs, size, samples), resized(targets, size, samples))
            output = batches.call(watch.called, called[0])
            batches.one_number(loss(output, called[1]))
            return watch.ended(output)
    except PlanError:
        raise
    except Exception as error:
        raise PlanError(
            what="the model cannot be described",
            where=f"{type(model).__qualname__}, {samples} samples",
            why=_why_failed(error),
            fix="a forward pass and a loss whose shapes do not depend on the values of tensors",
        ) from error
    finally:
        model.train(was_training)


def _why_failed(error: Exception) -> str:
    """What the forward pass or the loss did, and the innermost line outside torch and paceline."""
    line, at = "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_LIBRARIES):
            line = f" at {os.path.basename(file)}:{at.tb_lineno}"
        at = at.tb_next
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        return f"it reads the value of a tensor{line}, and is run on tensors without content"
    text = str(error).split("\n")[0]
    return f"its forward pass on tensors without content failed{line}: {text}"


@dataclass(slots=True)
class _Watch:
    """Attributes the operations of a forward pass to the layer that was entered last."""

    model: nn.Module
    layers: Layers
    seen: list[Seen] = field(default_factory=list[Seen])
    called: Callable[..., Any] = print
    _at: int = 0
    _last: Any = None  # the output of the layer before
    _counted: int = 0
    _counted_kept: int = 0
    _counter: Any = None
    _kept: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    _known: set[int] = field(default_factory=set[int])
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "_Watch":
        self.seen = [Seen() for _ in self.layers.names]
        fakes = self._fakes()
        self.called = _Called(self.model, fakes)
        self._known = {_storage(one) for one in fakes.values()}
        self._counter = self._stack.enter_context(FlopCounterMode(display=False))
        self._stack.enter_context(Keeping(self._keep))
        self._stack.enter_context(saved_tensors_hooks(self._pack, lambda kept: kept))
        for place, module in enumerate(self.layers.of(self.model)):
            before = module.register_forward_pre_hook(self._before(place), with_kwargs=True)
            after = module.register_forward_hook(self._after(place))
            self._stack.callback(before.remove)
            self._stack.callback(after.remove)
        for name in self.layers.passed:
            after = self.model.get_submodule(name).register_forward_hook(self._after(0))
            self._stack.callback(after.remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _fakes(self) -> dict[str, torch.Tensor]:
        fakes: dict[str, torch.Tensor] = {}
        for name, one in self.model.named_parameters():
            fake = torch.empty(one.shape, dtype=one.dtype, device="cpu")
            fakes[name] = fake.requires_grad_(one.requires_grad)
        for name, one in self.model.named_buffers():
            fakes[name] = torch.empty(one.shape, dtype=one.dtype, device="cpu")
        return fakes

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self._known:
            self._known.add(storage)
            self._kept.append(tensor)  # kept alive, so that no other storage gets the same address
            self.seen[self._at].saved += tensor.untyped_storage().nbytes()
        return tensor

    def _count(self) -> None:
        total = int(self._counter.get_total_flops())
        found = self._counter.get_flop_counts().get("Global", {})
        kept = sum(int(found.get(call, 0)) for call in kept_calls())
        seen = self.seen[self._at]
        seen.flops += total - self._counted
        seen.again += total - self._counted - (kept - self._counted_kept)
        self._counted, self._counted_kept = total, kept

    def _keep(self, tensor: torch.Tensor) -> None:
        self.seen[self._at].kept += tensor.numel() * tensor.element_size()

    def _before(self, place: int) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self._at != place:
                self._count()
                self._at = place
            seen = self.seen[place]
            seen.calls += 1
            seen.inputs = tree_map(_form, (args, kwargs))
            seen.amiss = self._amiss(place, (args, kwargs)) if place > 0 else ""

        return hook

    def _after(self, place: int) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: object, output: object) -> None:
            output = batches.logits_of(output) if place == len(self.seen) - 1 else output
            self._last = output
            is_one = isinstance(output, torch.Tensor)
            self.seen[place].output = Form.of(output) if is_one else None

        return hook

    def _amiss(self, place: int, given: Any) -> str:
        """Check that a layer's only trained input is the output of the layer before.

        In a model of transformers, the whole forward pass runs in each stage, so operations between
        two layers would run once for each stage.
        """
        tensors = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
        if self.layers.passed and place == 1 and self.seen[0].calls > 1:
            return f"{self.layers.names[0]} is called {self.seen[0].calls} times"
        if not tensors or not _is_same(tensors[0], self._last):
            return f"the model computes something itself before {self.layers.names[place]}"
        if any(one.requires_grad for one in tensors[1:]):
            return f"{self.layers.names[place]} takes more than the output of the layer before"
        return ""

    def ended(self, output: Any) -> list[Seen]:
        """The traces of all layers. `output` is the model's output."""
        self._count()
        if not _is_same(output, self._last) and not self.seen[-1].amiss:
            self.seen[-1].amiss = f"the model computes something behind {self.layers.names[-1]}"
        return self.seen


class _Called:
    """The model with replaced parameters, for `batch.call`."""

    def __init__(self, model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
        self.config: Any = getattr(model, "config", None)
        self._model, self._tensors = model, tensors

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return functional_call(self._model, self._tensors, args, kwargs)


def _form(one: Any) -> Any:
    return Form.of(one) if isinstance(one, torch.Tensor) else one


def _is_same(one: Any, other: Any) -> bool:
    """Whether two tensors have the same storage, shape and type. They may be different objects."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return _storage(one) == _storage(other) and (one.shape, one.dtype) == (other.shape, other.dtype)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]


def scaled(few: Any, more: Any, samples: int) -> Any:
    """The forms of two traces, with two and with four samples, for another number of samples."""
    flat, spec = tree_flatten(few)
    others = tree_leaves(more)
    return tree_unflatten([
        one.scaled(other, samples) if isinstance(one, Form) and isinstance(other, Form) else one
        for one, other in zip(flat, others, strict=True)
    ], spec)  # fmt: skip
