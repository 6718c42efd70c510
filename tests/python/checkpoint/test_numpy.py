"""NumPy alone: the same Checkpointer, in a process where torch cannot be imported."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import paceline.numpy as pl
import pytest

pytestmark = pytest.mark.usefixtures("own_keeper")

SCRIPT = """
import sys
sys.modules["torch"] = None  # importing it raises
import random
import numpy
import paceline.numpy as pl

generator = numpy.random.default_rng(3)
state = {"w": numpy.zeros((4, 3)), "generator": generator, "log": {"loss": []}}
ckpt = pl.Checkpointer(sys.argv[1], every=1000)
start = ckpt.restore(state)
for step in range(start, int(sys.argv[2])):
    state["w"] += generator.random((4, 3)) + numpy.random.rand() + random.random()
    state["log"]["loss"].append(float(state["w"].sum()))
    ckpt.save(step, state)
ckpt.close()
print(start, state["w"].tobytes().hex(), len(state["log"]["loss"]))
"""


def run(*args: str) -> list[str]:
    seeded = "import numpy, random; numpy.random.seed(1); random.seed(1)\n" + SCRIPT
    done = subprocess.run([sys.executable, "-c", seeded, *args], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_script_without_torch_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = run(str(tmp_path / "a"), "9")
    assert run(str(tmp_path / "b"), "4")[0] == "0"
    assert run(str(tmp_path / "b"), "9") == ["4", *whole[1:]]


def test_every_kind_of_array_comes_back(tmp_path: Path) -> None:
    kinds = ["bool", "uint8", "int8", "uint16", "float16", "int32", "uint64", "float32", "float64"]
    arrays = {kind: (numpy.random.rand(3, 5) * 100).astype(kind) for kind in kinds}
    arrays |= {"scalar": numpy.array(3.5), "empty": numpy.empty((0, 4), "f4")}
    arrays |= {"turned": numpy.arange(12.0).reshape(3, 4).T, "big": numpy.arange(5, dtype=">i4")}
    state: dict[str, object] = {"arrays": arrays, "name": "x"}
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)
        arrays["turned"] += 1
        arrays["big"] *= 2
        ckpt.save(1, state)
    fresh: dict[str, object] = {"arrays": None}
    loaded = pl.load(tmp_path / "c", fresh, strict=False)
    assert loaded.left_out == ["name was saved, and the state has no such entry"]
    back = fresh["arrays"]
    assert isinstance(back, dict)
    for key, value in arrays.items():
        assert back[key].dtype == value.dtype.newbyteorder("="), key
        assert numpy.array_equal(back[key], value), key


def test_what_one_framework_saved_the_other_reads(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from paceline.torch import Checkpointer

    net = torch.nn.Linear(3, 2)
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net, "extra": {"t": torch.ones(2, dtype=torch.int32)}})
        ckpt.save(0, {"model": net, "extra": {"t": torch.ones(2, dtype=torch.int32)}})
    state: dict[str, object] = {"extra": None}
    pl.load(tmp_path / "c", state, strict=False)
    assert state["extra"]["t"].tolist() == [1, 1]  # pyright: ignore


def test_what_no_file_can_hold_is_named(tmp_path: Path) -> None:
    ckpt = pl.Checkpointer(tmp_path / "c")
    with pytest.raises(pl.CheckpointError, match="datetime64"):
        ckpt.save(0, {"x": numpy.zeros(2, "M8[s]")})
    with pytest.raises(pl.CheckpointError, match="MaskedArray"):
        ckpt.save(0, {"x": numpy.ma.array([1, 2], mask=[False, True])})
    with pytest.raises(pl.CheckpointError, match=r"best: a numpy\.longdouble"):
        ckpt.save(0, {"best": numpy.longdouble(1)})
    assert issubclass(pl.CheckpointError, pl.PacelineError) and pl.Ticket is not None


def test_numbers_and_generators_come_back(tmp_path: Path) -> None:
    def make(seed: int) -> dict[str, Any]:
        return {
            "best": numpy.float32(seed) / 10,
            "complex": numpy.arange(3) * 1j * seed,
            "deep": {"generator": numpy.random.default_rng(seed)},
        }

    state, fresh = make(1), make(2)
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(numpy.int64(0), state)  # pyright: ignore[reportArgumentType]
    there = fresh["complex"], fresh["deep"]["generator"]
    pl.load(tmp_path / "c", fresh)
    assert type(fresh["best"]) is numpy.float32 and fresh["best"] == state["best"]
    assert fresh["complex"] is there[0] and numpy.array_equal(there[0], state["complex"])
    assert fresh["deep"]["generator"] is there[1]
    assert there[1].random() == state["deep"]["generator"].random()


BITS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def generator(bits: str, seed: int) -> numpy.random.Generator:
    made = numpy.random.Generator(getattr(numpy.random, bits)(seed))
    made.integers(0, 9, dtype="i4")  # leaves half a word behind
    return made


def drawn(one: numpy.random.Generator) -> list[float]:
    return [*one.normal(size=5).tolist(), *one.integers(0, 9, size=3, dtype="i4").tolist()]


@pytest.mark.parametrize("bits", BITS)
def test_every_generator_of_numpy_goes_on(tmp_path: Path, bits: str) -> None:
    one, deep = generator(bits, 1), generator(bits, 2)
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        for step in range(3):
            ckpt.save(step, {"g": one, "deep": {"g": deep}})
    wanted = drawn(one), drawn(deep)
    own, other = generator(bits, 3), generator(bits, 4)
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore({"g": own, "deep": {"g": other}}) == 3
        assert ckpt.replaced == ["deep is a new dict"]
    assert (drawn(own), drawn(other)) == wanted


def test_another_kind_of_generator_is_a_new_one_and_said(tmp_path: Path) -> None:
    one = generator("Philox", 1)
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"g": one, "n": 1})
    own = generator("MT19937", 3)
    state: dict[str, Any] = {"g": own, "n": 1}
    loaded = pl.load(tmp_path / "c", state)
    assert loaded.replaced == ["g is a new generator: it was saved as Philox, not MT19937"]
    assert state["g"] is not own and drawn(state["g"]) == drawn(one)
    with pytest.raises(pl.CheckpointError, match="n was saved as an int, not as a generator"):
        pl.load(tmp_path / "c", {"g": own, "n": own})


def test_torch_and_numpy_read_each_others_generators(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import paceline.torch as theirs

    for bits in BITS:
        one = generator(bits, 1)
        with theirs.Checkpointer(tmp_path / bits) as ckpt:
            ckpt.save(0, {"g": one})
        own = generator(bits, 3)
        pl.load(tmp_path / bits, {"g": own})
        assert drawn(own) == drawn(one), bits


def test_strict_refuses_arrays_of_another_type_or_shape(tmp_path: Path) -> None:
    with pl.Checkpointer(tmp_path / "c") as ckpt:
        ckpt.save(0, {"a": numpy.arange(3, dtype="f4"), "in": {"b": numpy.ones(2)}, "c": 1})

    def state() -> dict[str, Any]:
        return {"a": numpy.zeros(3), "in": {"b": numpy.zeros(5)}, "c": 0}

    found = state()
    with pytest.raises(pl.CheckpointError) as refused:
        pl.load(tmp_path / "c", found)
    assert "a was saved as F32, not F64" in refused.value.why
    assert "in.b was saved as [2], not [5]" in refused.value.why
    assert found["a"].tolist() == [0, 0, 0] and found["c"] == 0
    other = {"a": numpy.zeros(3, "f4"), "in": None, "c": numpy.zeros(1)}
    with pytest.raises(pl.CheckpointError, match="c was saved as an int, not as an ndarray"):
        pl.load(tmp_path / "c", other)
    loaded = pl.load(tmp_path / "c", found, strict=False)
    assert found["a"].tolist() == [0, 1, 2] and found["in"]["b"].tolist() == [1, 1]
    assert "a is a new tensor: it was saved as F32 [3], not F64 [3]" in loaded.replaced
    empty: dict[str, Any] = {"a": None, "in": None, "c": 0}  # takes whatever was saved
    pl.load(tmp_path / "c", empty)
    assert empty["a"].dtype == numpy.float32
