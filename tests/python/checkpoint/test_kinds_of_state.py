"""Each kind of state goes through a checkpoint and comes back as torch.save brings it back.

Save, make fresh objects, restore, compare: `torch.save` and `torch.load` do the same beside it.
"""

import copy
import dataclasses
import enum
import io
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from paceline.integrations.convert import main
from paceline.torch import (
    ArgumentError,
    Checkpointer,
    CheckpointError,
    PacelineError,
    Ticket,
    load,
)
from torch import nn, optim
from torch.distributed import checkpoint as dcp

pytestmark = [
    pytest.mark.usefixtures("own_keeper"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled"),
]

State = dict[str, Any]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def stepped(make: Callable[[nn.Module], optim.Optimizer]) -> State:
    model = net()
    return {"model": model, "optimizer": make(model)}


def train(state: State, steps: int = 2) -> None:
    model, optimizer = state["model"], state["optimizer"]
    for number in range(steps):
        inputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(number))

        def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(inputs.to(next(model.parameters()).dtype)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


def differences(one: Any, other: Any, where: str = "state") -> list[str]:
    """Where two states differ: types, shapes, every bit."""
    if type(one) is not type(other):
        return [f"{where}: {type(one)} and {type(other)}"]
    if hasattr(one, "state_dict"):
        return differences(one.state_dict(), other.state_dict(), where)
    if isinstance(one, torch.Generator):
        return differences(one.get_state(), other.get_state(), where)
    if isinstance(one, numpy.random.Generator):
        return differences(one.bit_generator.state, other.bit_generator.state, where)
    if isinstance(one, numpy.ndarray):
        same = (one.dtype, one.shape) == (other.dtype, other.shape)
        return [] if same and one.tobytes() == other.tobytes() else [f"{where}: {one}, {other}"]
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        one, other = ({name: getattr(c, name) for name in names} for c in (one, other))
    if isinstance(one, torch.Tensor):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return [f"{where}: {one.dtype} {one.shape} and {other.dtype} {other.shape}"]
        plain = [t.detach().resolve_conj().resolve_neg().contiguous() for t in (one, other)]
        equal = torch.equal(*(t.view(-1).view(torch.uint8) for t in plain))
        return [] if equal else [f"{where}: {one} and {other}"]
    if isinstance(one, defaultdict) and one.default_factory is not other.default_factory:
        return [f"{where}: {one.default_factory} and {other.default_factory}"]
    if isinstance(one, deque) and one.maxlen != other.maxlen:
        return [f"{where}: {one.maxlen} and {other.maxlen}"]
    if isinstance(one, dict):
        order = list if isinstance(one, OrderedDict) else set
        if order(one) != order(other):
            return [f"{where}: {list(one)} and {list(other)}"]
        return [d for key in one for d in differences(one[key], other[key], f"{where}.{key}")]
    if isinstance(one, (list, tuple, deque)):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{where}.{i}")]
    return [] if one == other or (one != one and other != other) else [f"{where}: {one}, {other}"]


class Odd(optim.SGD):
    """State of no parameter, under names that are no plain texts, and in containers."""

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        self.state["rounds"] = self.state.get("rounds", 0) + 1  # pyright: ignore
        for group in self.param_groups:
            for p in group["params"]:
                mine = self.state[p]
                mine["a.b"], mine[7] = torch.ones_like(p), torch.zeros(2)
                mine["nested"] = {"deep": [torch.full((3,), 2.0, dtype=torch.float64), "text"]}
        return loss


def bf16(model: nn.Module) -> optim.Optimizer:
    return optim.LBFGS(model.bfloat16().parameters(), lr=0.1, max_iter=3)


OPTIMIZERS: dict[str, Callable[[nn.Module], optim.Optimizer]] = {
    "tensor lr": lambda m: optim.Adam(m.parameters(), lr=torch.tensor(0.01)),
    "capturable": lambda m: optim.AdamW(m.parameters(), lr=torch.tensor(0.01), foreach=False),
    "tensors in groups": lambda m: optim.SGD(
        [{"params": [p], "scale": torch.arange(3), "bounds": (torch.ones(1), 2)}
         for p in m.parameters()], lr=0.1, momentum=0.9
    ),
    "lbfgs": lambda m: optim.LBFGS(m.parameters(), lr=0.1, max_iter=3),
    "lbfgs with a line search": lambda m: optim.LBFGS(
        m.parameters(), lr=0.1, max_iter=5, line_search_fn="strong_wolfe"
    ),
    "lbfgs in bfloat16": bf16,
    "odd": lambda m: Odd(m.parameters(), lr=0.1, momentum=0.9),
}  # fmt: skip


def saved(state: State, place: Path) -> None:
    with Checkpointer(place) as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)


@pytest.mark.parametrize("way", ["restore", "load"])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_goes_on_as_with_torch_save(kind: str, way: str, tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS[kind])
    train(state)
    saved(state, tmp_path / "c")
    text = io.BytesIO()
    torch.save({key: value.state_dict() for key, value in state.items()}, text)
    fresh, twin = stepped(OPTIMIZERS[kind]), stepped(OPTIMIZERS[kind])
    if way == "restore":
        assert Checkpointer(tmp_path / "c").restore(fresh) == 1
    else:
        assert load(tmp_path / "c", fresh).left_out == []
    text.seek(0)
    for key, value in torch.load(text).items():
        twin[key].load_state_dict(value)
    assert differences(state, fresh) == []
    train(state)
    train(fresh)
    train(twin)
    assert differences(state, fresh) == []
    if "bfloat16" not in kind:  # torch's load_state_dict gives nested state another type
        assert differences(twin["model"], fresh["model"]) == []


@pytest.mark.parametrize("kind", ["tensor lr", "lbfgs"])
def test_an_optimizer_with_tensors_is_exported(kind: str, tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS[kind])
    train(state)
    saved(state, tmp_path / "c")
    assert main(["export", str(tmp_path / "c"), str(tmp_path / "out")]) == 0
    state_dict = dcp.filesystem.FileSystemReader(str(tmp_path / "out")).read_metadata()
    names = set(state_dict.state_dict_metadata)
    assert "optimizer.param_groups.0.lr" in names or "optimizer.param_groups" in str(names)
    assert main(["import", str(tmp_path / "out"), str(tmp_path / "in")]) == 0
    fresh = stepped(OPTIMIZERS[kind])
    load(tmp_path / "in", fresh)
    train(state)
    train(fresh)
    assert differences(state["model"], fresh["model"]) == []


class Counted:
    """Counts how often it is asked for its state, and is given one."""

    def __init__(self) -> None:
        self.loads = self.asked = 0
        self.tensor = torch.ones(2)

    def state_dict(self) -> State:
        self.asked += 1
        return {"x": self.tensor}

    def load_state_dict(self, _state: State) -> None:
        self.loads += 1


def test_the_first_save_is_rehearsed_and_touches_nothing(tmp_path: Path) -> None:
    state = stepped(OPTIMIZERS["lbfgs"]) | {"own": Counted(), "loose": {"x": torch.rand(3)}}
    train(state)
    before = copy.deepcopy({k: v for k, v in state.items() if k != "own"})
    numbers = torch.get_rng_state()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, state)
        assert state["own"].asked == 1 and state["own"].loads == 0
        ckpt.save(1, state)
        assert state["own"].asked == 2
    assert torch.equal(numbers, torch.get_rng_state())
    for key, value in before.items():
        assert differences(value, state[key]) == []


class Point(NamedTuple):
    x: int
    weights: torch.Tensor


@dataclasses.dataclass
class Config:
    rate: float
    mean: torch.Tensor
    names: list[str] = dataclasses.field(default_factory=list[str])

    def __post_init__(self) -> None:
        assert self.rate != 99, "a restore runs no code of a class"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    steps: int


class Mode(enum.Enum):
    TRAIN = "train"


class Level(enum.IntEnum):
    HIGH = 3


class Bits(enum.Flag):
    A = 1
    B = 2


class Modal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(2, dtype=torch.complex64))
        self.register_buffer("freqs", torch.polar(torch.rand(4), torch.rand(4)))


def drawn() -> numpy.random.Generator:
    generator = numpy.random.Generator(numpy.random.MT19937(3))
    generator.random(5)
    return generator


def odd_config() -> Config:
    made = Config(0.5, torch.rand(2))
    made.rate = 99
    return made


FLOAT8 = ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")

VALUES: dict[str, Callable[[], Any]] = {
    "complex module": Modal,
    "complex": lambda: [torch.rand(3, 2, dtype=d) for d in (torch.complex64, torch.complex128)],
    "complex half": lambda: torch.rand(3).to(torch.complex32),
    "complex scalar": lambda: torch.tensor(1 + 2j),
    "no complex": lambda: torch.empty(0, 3, dtype=torch.complex64),
    "conjugated": lambda: torch.rand(3, dtype=torch.complex64).conj().clone(),
    "turned": lambda: torch.rand(3, 2, dtype=torch.complex128).t(),
    "small floats": lambda: [
        torch.randint(0, 255, (3, 4), dtype=torch.uint8).view(getattr(torch, name))
        for name in FLOAT8 if hasattr(torch, name)
    ],
    "expanded": lambda: torch.rand(3).expand(2, 3),
    "torch generator": lambda: {"g": torch.Generator().manual_seed(3)},
    "numpy generators": lambda: [numpy.random.default_rng(3), drawn()],
    "numpy numbers": lambda: [
        numpy.float64(0.1), numpy.float32(0.1), numpy.float16(2), numpy.int64(3), numpy.uint8(4),
        numpy.bool_(True), numpy.complex64(1 + 2j), numpy.complex128(1j), numpy.str_("x"),
        numpy.float64("nan"), numpy.uint64(2**64 - 1),
    ],
    "numpy arrays": lambda: {
        "a": numpy.random.rand(2, 3), "b": [numpy.arange(3), numpy.array(True)],
        "c": numpy.random.rand(2) * 1j, "t": numpy.random.rand(2, 3).T,
    },
    "ordered": lambda: OrderedDict(b=torch.rand(2), a=1),
    "defaultdict": lambda: [defaultdict(int, a=1), defaultdict(None, {2: "x"}), defaultdict(list)],
    "counter": lambda: {"milestones": Counter({1: 2, "x": 3})},
    "deque": lambda: [deque([1, torch.rand(2)], maxlen=5), deque()],
    "namedtuple": lambda: {"p": Point(1, torch.rand(2)), "l": [Point(2, torch.rand(1))]},
    "dataclass": lambda: [Config(0.5, torch.rand(2), ["a"]), odd_config(), {"f": Frozen(3)}],
    "enums": lambda: [Mode.TRAIN, Level.HIGH, Bits.A, Bits.A | Bits.B, {Mode.TRAIN: 1}],
    "keys": lambda: {1: "a", None: 2, (1, 2): torch.rand(1), True and "t": 3, 2.5: {"$x": 1}},
    "plain": lambda: [None, True, 10**30, float("inf"), -0.0, b"\xff", 1 + 2j, (1, [2]), {3}, "\0"],
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("other", ["alike", "empty"])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back_as_with_torch_save(kind: str, other: str, tmp_path: Path) -> None:
    """`alike`: its like stands in the state. `empty`: the classes are imported, that is all."""
    value = VALUES[kind]()
    saved({"value": value}, tmp_path / "c")
    text = io.BytesIO()
    torch.save(value, text)
    text.seek(0)
    twin = torch.load(text, weights_only=False)
    is_module = isinstance(value, nn.Module)
    fresh: State = {"value": VALUES[kind]() if other == "alike" or is_module else None}
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore(fresh) == 1
    assert differences(value, fresh["value"]) == []
    assert differences(twin, fresh["value"]) == []


ELSEWHERE = """
import sys, paceline.torch as pl
state = {"value": None}
loaded = pl.load(sys.argv[1], state)
print(sorted(loaded.replaced))
print(state["value"])
print("evil" in sys.modules)
"""


def test_no_module_is_imported_because_a_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(
        "import collections, dataclasses, enum\n"
        "@dataclasses.dataclass\nclass C:\n    a: int\n"
        "N = collections.namedtuple('N', 'b')\n"
        "E = enum.Enum('E', 'ONE')\n"
        "class M(collections.UserDict): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import evil  # pyright: ignore[reportMissingImports]

    state = {"value": [evil.C(1), evil.N(2), evil.E.ONE, evil.M(x=3)]}
    saved(state, tmp_path / "c")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "c")],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    told, value, is_imported = done.stdout.splitlines()
    assert value == "[{'a': 1}, (2,), 1, {'x': 3}]" and is_imported == "False"
    for place, name in ((0, "C"), (1, "N"), (2, "E")):
        assert f"value.{place} was a evil.{name}, which is not imported here" in told


REFUSED: dict[str, tuple[Callable[[], State], str]] = {
    "sparse": (lambda: {"x": torch.eye(3).to_sparse()}, "sparse"),
    "csr": (lambda: {"x": torch.eye(3).to_sparse_csr()}, "sparse"),
    "quantised": (
        lambda: {"x": torch.quantize_per_tensor(torch.arange(4.0), 0.1, 0, torch.qint8)},
        "quantised",
    ),
    "quantised type": (lambda: {"x": torch.empty(3, dtype=torch.quint8)}, "quint8"),
    "nested": (lambda: {"x": torch.nested.nested_tensor([torch.ones(2)])}, "nested"),
    "meta": (lambda: {"x": torch.empty(3, device="meta")}, "meta"),
    "meta module": (lambda: {"m": nn.Linear(2, 2, device="meta")}, "to_empty"),
    "lazy module": (lambda: {"m": nn.LazyLinear(3)}, "forward pass"),
    "key clash": (lambda: {"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, r"a\.b"),
    "keys of two types": (lambda: {"x": {1: torch.ones(1), "1": torch.ones(1)}}, r"x\.1"),
    "an int as a name": (lambda: {1: torch.ones(1)}, "no text"),  # pyright: ignore
    "half a character": (lambda: {"\udc80": torch.ones(1)}, "UTF-8"),
    "a reserved name": (lambda: {"__metadata__": torch.ones(1)}, "for itself"),
    "texts in an array": (lambda: {"x": numpy.array(["a"])}, "<U1"),
    "a masked array": (lambda: {"x": numpy.ma.array([1, 2], mask=[False, True])}, "MaskedArray"),
    "a module in a dict": (lambda: {"nets": {"g": nn.Linear(2, 2)}}, '"nets_g": …'),
    "a range": (lambda: {"x": range(3)}, "range"),
    "more than fields": (lambda: {"x": _more()}, "extra"),
    "a ring": (lambda: {"x": _ring()}, "holds itself"),
}


def _more() -> Config:
    made = Config(0.5, torch.ones(1))
    made.extra = 1  # pyright: ignore[reportAttributeAccessIssue]
    return made


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_saved_is_named(kind: str, tmp_path: Path) -> None:
    make, word = REFUSED[kind]
    with pytest.raises(CheckpointError, match=word) as caught:
        Checkpointer(tmp_path / "c").save(0, make())
    assert all((caught.value.what, caught.value.where, caught.value.why, caught.value.fix))
    assert isinstance(caught.value, PacelineError)


@pytest.mark.parametrize("kind", ["meta module", "lazy module", "an int as a name"])
def test_what_cannot_be_filled_is_named(kind: str, tmp_path: Path) -> None:
    saved({"m": nn.Linear(2, 3)}, tmp_path / "c")
    make, word = REFUSED[kind]
    with pytest.raises(CheckpointError, match=word):
        Checkpointer(tmp_path / "c").restore(make())


def test_steps_are_whole_numbers(tmp_path: Path) -> None:
    state = {"x": torch.ones(1)}
    ckpt = Checkpointer(tmp_path / "c")
    ticket = ckpt.save(numpy.int64(3), state)  # pyright: ignore[reportArgumentType]
    assert isinstance(ticket, Ticket) and type(ticket.step) is int and ticket.step == 3
    ckpt.save(torch.tensor(4), state).wait("durable")  # pyright: ignore[reportArgumentType]
    for wrong, word in ((5.0, "5.0"), (numpy.float32(5), "5"), ("6", "whole"), (2**63, "whole")):
        with pytest.raises(ArgumentError, match=word):
            ckpt.save(wrong, state)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="from 0 to"):
        ckpt.save(-1, state)
    ckpt.close()
    assert Checkpointer(tmp_path / "c").restore(state) == 5


class HookedLate(nn.Linear):
    """Has a hook on its state_dict from its first forward on, as FSDP's modules do."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:  # pyright: ignore
        if not self._state_dict_pre_hooks:
            self.register_state_dict_pre_hook(lambda *_: None)
        return super().forward(inputs)


@pytest.mark.parametrize("planned_early", [False, True])
@pytest.mark.parametrize("restored_late", [False, True])
def test_hooks_that_come_with_the_first_step(
    planned_early: bool, restored_late: bool, tmp_path: Path
) -> None:
    state, fresh = {"model": HookedLate(2, 3)}, {"model": HookedLate(2, 3)}
    with Checkpointer(tmp_path / "c") as ckpt:
        if planned_early:
            ckpt.restore(state)
        state["model"](torch.ones(2))
        ckpt.save(0, state)
    if restored_late:
        fresh["model"](torch.ones(2))
    assert load(tmp_path / "c", fresh).left_out == []
    assert differences(state, fresh) == []
