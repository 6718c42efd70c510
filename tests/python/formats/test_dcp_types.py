"""dcp.load into tensors of other types and layouts, with torch's FileSystemReader as the twin."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from dcp_alone import ALONE
from paceline._native import Layout, StoredPlace
from paceline._state.torch_types import DTYPES
from paceline.errors import CheckpointError
from paceline.integrations import dcp as ours
from paceline.integrations.dcp import PacelineReader, PacelineWriter
from paceline.torch import Checkpointer, load
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, ReadItem

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
# Also what does not fit into the smaller types, and what is no number.
_VALUES = [0.0, 1.0, -1.0, 2.5, 3.0, -7.0, 200.0, 70000.0, 1e-3, 5e9, float("inf"), float("nan")]


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


def source_of(dtype: torch.dtype) -> torch.Tensor:
    values = torch.tensor(_VALUES, dtype=torch.float64)
    if not dtype.is_floating_point:
        values = values.nan_to_num(3, 4, 5).clamp(0 if "u" in str(dtype) else -100, 100)
    return values.to(dtype).reshape(3, 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("types")
    state = {name: source_of(dtype) for name, dtype in DTYPES.items()}
    state |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 3)}
    dcp.save(state, storage_writer=PacelineWriter(place / "ours", step=1), **ALONE)
    dcp.save(state, checkpoint_id=str(place / "twin"), **ALONE)
    return place


def load_both(saved: Path, make: Any) -> tuple[Any, Any]:
    """What both readers load into states that `make` gives; a kind of error where they fail."""
    found: list[Any] = []
    for reader in (
        PacelineReader(saved / "ours"),
        dcp.FileSystemReader(saved / "twin"),
    ):
        state = make()
        try:
            dcp.load(state, storage_reader=reader, **ALONE)
            found.append({key: bits(tensor) for key, tensor in state.items()})
        except CheckpointException as error:
            found.append([type(one).__name__ for one, _stack in error.failures.values()])
    return found[0], found[1]


@pytest.mark.parametrize("elements", [4 << 20, 5], ids=["at once", "in pieces"])
@pytest.mark.parametrize("target", sorted(DTYPES))
def test_every_type_is_converted_as_torch_does_it(
    saved: Path, target: str, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_BUFFER_ELEMENTS", elements)

    def state() -> dict[str, torch.Tensor]:
        shapes = dict.fromkeys(DTYPES, (3, 4)) | {"scalar": (), "empty": (0, 3)}
        return {name: torch.zeros(shape, dtype=DTYPES[target]) for name, shape in shapes.items()}

    mine, twins = load_both(saved, state)
    assert mine == twins
    assert isinstance(mine, dict) and mine[target] == bits(source_of(DTYPES[target]))


@pytest.mark.parametrize("elements", [4 << 20, 5], ids=["at once", "in pieces"])
def test_every_layout_of_the_target_is_filled(
    saved: Path, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_BUFFER_ELEMENTS", elements)
    layouts = {
        "transposed": lambda t: torch.zeros(4, 3, dtype=t).t(),
        "every second": lambda t: torch.zeros(6, 8, dtype=t)[::2, ::2],
        "a part": lambda t: torch.zeros(5, 9, dtype=t)[1:4, 2:6],
        "gradient": lambda t: torch.nn.Parameter(torch.zeros(3, 4, dtype=t)),
    }
    for name, make in layouts.items():
        for dtype in (torch.float32, torch.float64):
            mine, twins = load_both(saved, lambda m=make, t=dtype: {"F32": m(t)})
            assert mine == twins, name
            assert mine == {"F32": bits(source_of(torch.float32).to(dtype))}, name


def test_another_shape_is_an_error_and_overwrites_nothing(saved: Path) -> None:
    for shape in ((3, 5), (4, 3), (12,), (2, 4), ()):
        mine, twins = load_both(saved, lambda s=shape: {"F32": torch.zeros(s)})
        assert isinstance(mine, list) and isinstance(twins, list), shape


class _Planner:
    """Asks for a part of a tensor, and gives any tensor for it."""

    def __init__(self, target: torch.Tensor) -> None:
        self.target = target

    def resolve_tensor(self, item: ReadItem) -> torch.Tensor:
        return self.target

    def commit_tensor(self, item: ReadItem, tensor: torch.Tensor) -> None:
        pass


def read_part(saved: Path, target: torch.Tensor, begin: tuple[int, int],
              extent: tuple[int, int]) -> None:
    reader = PacelineReader(saved / "ours")
    reader.read_metadata()
    index = MetadataIndex("F32", torch.Size((0, 0)))
    item = ReadItem(LoadItemType.TENSOR, index, torch.Size((0, 0)), index, torch.Size(begin),
                    torch.Size(extent))
    planner: Any = _Planner(target)
    reader.read_data(LoadPlan([item]), planner).wait()


@pytest.mark.parametrize("elements", [4 << 20, 2], ids=["at once", "in pieces"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_part_is_converted_and_its_size_is_checked(
    saved: Path, dtype: torch.dtype, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_BUFFER_ELEMENTS", elements)
    target = torch.zeros(2, 3, dtype=dtype)
    read_part(saved, target, (1, 1), (2, 3))
    assert bits(target) == bits(source_of(torch.float32)[1:3, 1:4].to(dtype))
    for shape in ((2, 2), (3, 2), (6,), (2, 4)):
        wrong = torch.full(shape, 9.0, dtype=dtype)
        with pytest.raises(CheckpointError, match="the planner asks for"):
            read_part(saved, wrong, (1, 1), (2, 3))
        assert bool((wrong == 9).all())


def test_pieces_make_up_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in ((), (0,), (7,), (3, 0, 2), (3, 4, 5), (1, 60), (60, 1)):
        for elements in (1, 3, 7, 20, 1000):
            seen = torch.zeros(shape, dtype=torch.int64)
            for offset, extent in ours._pieces(shape, elements):
                piece = seen
                for axis, (at, size) in enumerate(zip(offset, extent, strict=True)):
                    piece = piece.narrow(axis, at, size)
                assert piece.numel() <= elements
                piece += 1
            assert bool((seen == 1).all()), (shape, elements)


def test_the_native_module_checks_the_memory_that_it_is_given(saved: Path, tmp_path: Path) -> None:
    reader = PacelineReader(saved / "ours")
    reader.read_metadata()
    part = reader._index.places[MetadataIndex("F32", torch.Size((0, 0)))]
    memory = torch.full((12,), 9.0)
    whole = ((0, 0), (3, 4), (3, 4), (0, 0))
    for size in (0, 24, 47, 49):
        with pytest.raises(ValueError, match="does not fit"):
            part.source.restore([(part.index, (memory.data_ptr(), size))], [])
        begin, extent, shape, to = whole
        region = (part.index, begin, extent, (memory.data_ptr(), size), shape, to)
        with pytest.raises(ValueError, match="does not fit"):
            part.source.restore([], [region])
    assert bool((memory == 9).all())
    place = StoredPlace(str(tmp_path), "job", 0, 1)
    layout = Layout([("x", "F32", (12,), (0,))])
    with pytest.raises(ValueError, match="another size"):
        place.write(0, layout, [(memory.data_ptr(), 47)], b"{}")


def kinds_of_object() -> dict[str, Any]:
    return {
        "complex": torch.arange(6.0).reshape(2, 3) * (1 + 2j),
        "turned": (torch.arange(6.0).reshape(2, 3) * 1j).t(),
        "bytes": torch.arange(4.0).to(torch.float8_e4m3fnuz),
        "array": numpy.arange(6, dtype=">i4").reshape(2, 3),
        "pair": (torch.ones(2, dtype=torch.bfloat16), 3, numpy.arange(3) * 1j),
        "deep": {"pair": (1, torch.arange(3)), "n": 5},
        "plain": (1, "two"),
        "m": torch.ones(3),
    }


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and bits(one) == bits(other)
    if isinstance(one, numpy.ndarray):
        return isinstance(other, numpy.ndarray) and bool((one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return all(is_equal(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and one == other


def emptied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: emptied(one) for key, one in value.items()}
    return None


@pytest.mark.parametrize("elements", [4 << 20, 2], ids=["at once", "in pieces"])
def test_what_a_checkpointer_takes_the_writer_takes(
    tmp_path: Path, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_BUFFER_ELEMENTS", elements)
    state = kinds_of_object()
    dcp.save(state, storage_writer=PacelineWriter(tmp_path / "c", step=1), **ALONE)
    found = emptied(state)
    dcp.load(found, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    assert is_equal(state, found)
    other = {"pair": None, "array": None}
    load(tmp_path / "c", other, strict=False)
    assert is_equal({key: state[key] for key in other}, other)


@pytest.mark.usefixtures("own_keeper")
def test_tensors_within_objects_of_a_checkpointer_are_read(tmp_path: Path) -> None:
    """They came back as None."""
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"x": (torch.ones(2), 3), "c": torch.ones(2) * 1j})
    found: dict[str, Any] = {"x": None, "c": torch.zeros(2, dtype=torch.complex128)}
    dcp.load(found, storage_reader=PacelineReader(tmp_path / "c"), **ALONE)
    assert is_equal(found["x"], (torch.ones(2), 3))
    assert found["c"].tolist() == [1j, 1j]
