"""Checkpoints of a process that no launcher started: what is saved comes back, or says why not."""

import json
import math
import random
import signal
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy
import pytest
import torch
from agent_double import wait_until
from dcp_alone import ALONE
from jsonschema import Draft202012Validator
from paceline._checkpoint.interval import parse_every
from paceline._state import notes
from paceline.torch import ArgumentError, Checkpointer, CheckpointError

BINARY = Path(sys.executable).parent / "paceline"
SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"


pytestmark = pytest.mark.usefixtures("own_keeper")


def model() -> torch.nn.Module:
    layers = [torch.nn.Linear(16, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 4)]
    return torch.nn.Sequential(*layers)


def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(8, 16) * random.random() + float(numpy.random.rand())).sum().backward()
        optimizer.step()


def weights(net: torch.nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in net.state_dict().values()]


ENDS_EARLY = """
import sys, torch, paceline.torch as pl
state = {"model": torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.ones(64 << 20))})}
ckpt = pl.Checkpointer(sys.argv[1])
ckpt.save(ckpt.restore(state), state)
"""


def test_a_script_may_end_while_memory_is_still_being_found(tmp_path: Path) -> None:
    """256 MB are saved in a tenth of the time that the kernel needs for the other slots."""
    words = [sys.executable, "-c", ENDS_EARLY, str(tmp_path / "c")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"


@pytest.mark.parametrize(
    "kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop]
)
def test_a_restored_training_goes_on_bit_for_bit(
    kind: type[torch.optim.Optimizer], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    net = model()
    optimizer = kind(net.parameters(), lr=0.01)  # pyright: ignore[reportCallIssue]
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    state = {"model": net, "optimizer": optimizer, "schedule": schedule, "seen": {"files": (1, 2)}}
    with Checkpointer(tmp_path / "c") as ckpt:
        assert ckpt.restore(state) == 0
        train(net, optimizer, 5)
        schedule.step()
        ckpt.save(4, state)
        train(net, optimizer, 5)
    expected = weights(net)

    torch.manual_seed(99)
    other = model()
    again = kind(other.parameters(), lr=0.5)  # pyright: ignore[reportCallIssue]
    later = torch.optim.lr_scheduler.StepLR(again, 3, 0.5)
    fresh = {"model": other, "optimizer": again, "schedule": later, "seen": None}
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore(fresh) == 5
    assert fresh["seen"] == {"files": (1, 2)}
    assert later.last_epoch == 1
    train(other, again, 5)
    assert all(torch.equal(a, b) for a, b in zip(expected, weights(other), strict=True))
    ckpt.close()


def test_others_read_the_files_without_paceline(tmp_path: Path) -> None:
    from safetensors.torch import load_file
    from torch.distributed import checkpoint as dcp

    net = model()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(0, {"model": net})
    (folder,) = (tmp_path / "c").glob("step-*")
    tensors = load_file(folder / "shard-00000.safetensors")
    assert set(tensors) == {f"model.{key}" for key in net.state_dict()}
    assert all(torch.equal(tensors[f"model.{k}"], v) for k, v in net.state_dict().items())
    filled = {key: torch.zeros_like(value) for key, value in tensors.items()}
    reader = dcp.HuggingFaceStorageReader(str(folder))
    dcp.load(filled, storage_reader=reader, **ALONE)
    assert all(torch.equal(filled[key], tensors[key]) for key in tensors)


def test_a_replaced_tensor_is_noticed(tmp_path: Path) -> None:
    net = model()
    state = {"model": net}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)
        net[0].weight = torch.nn.Parameter(torch.full((32, 16), 7.0))  # pyright: ignore
        ckpt.save(1, state)
        net[2] = torch.nn.Linear(32, 4)  # pyright: ignore
        with torch.no_grad():
            net[2].weight.fill_(3.0)  # pyright: ignore
        net[0].bias.data = torch.full((32,), 5.0)  # pyright: ignore
        ckpt.save(2, state)
    other = model()
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore({"model": other}) == 3
    assert all(torch.equal(a, b) for a, b in zip(weights(net), weights(other), strict=True))
    ckpt.close()


def test_memory_that_was_swapped_below_a_tensor_is_noticed(tmp_path: Path) -> None:
    net, turned = torch.nn.Linear(4, 3), torch.nn.Parameter(torch.zeros(4, 3).t())
    net.register_parameter("turned", turned)
    state = {"model": net}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)
        net.bias.data = torch.full((3,), 5.0)
        turned.data = torch.full((4, 3), 6.0).t()
        ckpt.save(1, state)
    back = torch.nn.Linear(4, 3)
    back.register_parameter("turned", torch.nn.Parameter(torch.zeros(3, 4)))
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore({"model": back}) == 2
    assert back.bias.tolist() == [5.0] * 3 and back.get_parameter("turned").eq(6).all()
    ckpt.close()


def test_state_that_is_asked_in_every_save_costs_no_new_plan(tmp_path: Path) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    loose = {"a": torch.zeros(3), "list": [torch.ones(2)]}
    state = {"model": net, "optimizer": optimizer, "schedule": schedule, "loose": loose}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        train(net, optimizer, 1)
        ckpt.save(0, state)
        planned = ckpt._planned
        schedule.step()
        loose["a"] += 1
        ckpt.save(1, state)
        assert ckpt._planned is planned
        loose["list"].append(torch.full((2,), 7.0))
        loose["a"] = torch.full((3,), 9.0)
        ckpt.save(2, state)
        assert ckpt._planned is not planned
    fresh: dict[str, object] = {"loose": None}
    assert Checkpointer(tmp_path / "c").restore(fresh, strict=False) == 3
    back = fresh["loose"]
    assert isinstance(back, dict)
    assert back["a"].tolist() == [9.0] * 3 and back["list"][1].tolist() == [7.0, 7.0]


def test_the_next_run_may_ask_for_something_else(tmp_path: Path) -> None:
    net = model()
    for keep in (3, 1):
        with Checkpointer(tmp_path / "c", keep=keep, every=100 // keep) as ckpt:
            first = ckpt.restore({"model": net})
            for step in range(first, first + 2):
                ckpt.save(step, {"model": net}).wait("durable")
    # The keeper tidies after its answer.
    wait_until(lambda: len(list((tmp_path / "c").glob("step-*"))) == 1, "older ones are gone")


def test_the_launcher_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACELINE_CHECKPOINT_KEEP", "1")
    monkeypatch.setenv("PACELINE_CHECKPOINT_EVERY", "1")
    with Checkpointer(tmp_path / "c", keep=3, every="1h") as ckpt:
        for step in range(3):
            ckpt.save(step, {"model": torch.zeros(3)}).wait("durable")
    wait_until(lambda: len(list((tmp_path / "c").glob("step-*"))) == 1, "older ones are gone")
    assert (tmp_path / "c" / "step-2-g1").is_dir()
    for name, wrong in (("KEEP", "0"), ("KEEP", "x"), ("EVERY", "5 parsecs")):
        monkeypatch.setenv("PACELINE_CHECKPOINT_KEEP", "1")
        monkeypatch.setenv(f"PACELINE_CHECKPOINT_{name}", wrong)
        with pytest.raises(ArgumentError):
            Checkpointer(tmp_path / "d")


def test_what_does_not_fit_is_listed_and_nothing_is_touched(tmp_path: Path) -> None:
    net = model()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(0, {"model": net})
    other = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Linear(8, 4, bias=False))
    before = weights(other)
    ckpt = Checkpointer(tmp_path / "c")
    with pytest.raises(CheckpointError) as caught:
        ckpt.restore({"model": other, "more": 1})
    words = ("model.0.weight", "[32, 16]", "model.1.weight was not saved", "more was not saved")
    for word in words:
        assert word in str(caught.value)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(other), strict=True))


def test_left_out_parts_are_told(tmp_path: Path) -> None:
    net = model()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net, "old": 1})
        ckpt.save(0, {"model": net, "old": 1})
    other = model()
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore({"model": other, "new": 2}, strict=False) == 1
    assert "new was not saved" in ckpt.restored and "old was saved" in ckpt.restored
    assert all(torch.equal(a, b) for a, b in zip(weights(net), weights(other), strict=True))


def test_every_kind_of_tensor_comes_back(tmp_path: Path) -> None:
    kinds = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64]
    tensors = {str(kind): (torch.rand(3, 5) * 100).to(kind) for kind in kinds}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.empty(0, 4)}
    tensors["turned"] = torch.arange(12.0).reshape(3, 4).t()  # not contiguous
    state: dict[str, object] = {"t": tensors, "list": [torch.ones(2), {"x": torch.zeros(1)}]}
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state)
    fresh: dict[str, object] = {"t": None, "list": None}
    ckpt = Checkpointer(tmp_path / "c")
    assert ckpt.restore(fresh) == 1
    back = fresh["t"]
    assert isinstance(back, dict)
    for key, value in tensors.items():
        assert back[key].dtype == value.dtype and torch.equal(back[key], value), key
    assert torch.equal(fresh["list"][0], torch.ones(2))  # pyright: ignore


def test_state_that_cannot_be_saved_is_named(tmp_path: Path) -> None:
    ckpt = Checkpointer(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"thing\.file"):
        ckpt.save(0, {"thing": {"file": sys.stdout}})
    with pytest.raises(CheckpointError, match="sparse"):
        ckpt.save(0, {"t": torch.eye(2).to_sparse()})


def test_several_ranks_without_a_process_group_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CheckpointError, match="call init_process_group first"):
        Checkpointer(tmp_path / "c")


def test_the_commands_look_at_it(tmp_path: Path) -> None:
    net = model()
    with Checkpointer(tmp_path / "c") as ckpt:
        ckpt.restore({"model": net})
        ckpt.save(3, {"model": net})

    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([BINARY, "ckpt", *words], capture_output=True, text=True, check=False)

    folder = str(tmp_path / "c")
    assert "step-3-g" in command("ls", folder).stdout
    assert "model.0.weight" in command("show", folder).stdout
    assert command("verify", folder).returncode == 0
    for verb in ("ls", "show", "verify"):
        told = json.loads(command("--json", verb, folder).stdout)
        schema = SCHEMAS / f"{told['schema'].removeprefix('paceline.').removesuffix('/1')}.json"
        Draft202012Validator(json.loads(schema.read_text())).validate(told)
    unnamed = command("rm", folder)
    assert unnamed.returncode == 2 and "needs the name of one checkpoint" in unnamed.stderr
    (name,) = (path.name for path in (tmp_path / "c").glob("step-*"))
    assert command("rm", f"{folder}/{name}").returncode == 0
    assert command("ls", folder).returncode == 2


@pytest.mark.parametrize("value", [
    None, True, 3, -(2**70), 0.1, math.inf, -math.inf, 2 + 3j, "ü\0", b"\0\xff", [], (), {}, set(),
    [1, (2, [3])], {"a": {1: (2,)}, "$x": 1}, {(1, 2): "x"}, frozenset({1}), OrderedDict(b=1, a=2),
])
def test_notes_come_back_as_they_were(value: object) -> None:
    back = notes.decode(notes.encode(value, where="x"))
    assert back == value and type(back) is type(value)


def test_hostile_notes_raise_and_nothing_else() -> None:
    deep: object = 1
    for _ in range(3000):
        deep = [deep]
    texts: list[object] = [
        {"$int": "x"}, {"$bytes": "?"}, {"$dict": [1]}, {"$complex": [1]}, {"$none": 1},
        {"$tensor": "x"}, {"$array": "x"}, {"$generator": []}, {"$ordered": [[1]]}, {"$counter": 3},
        {"$ordered": [[[], 1]]}, {"$deque": []}, {"$deque": ["x", []]}, {"$deque": [-1, []]},
        {"$defaultdict": ["eval", []]}, {"$defaultdict": [[], []]}, {"$number": ["void", 1]},
        {"$number": ["int8", "x"]}, {"$number": ["int8", 1000]}, {"$number": [[], 1]},
        {"$enum": [1, "C", "X", 1]}, {"$enum": ["m"]}, {"$namedtuple": ["m", "C"]},
        {"$dataclass": ["m", "C", 3]}, {"$dataclass": [None, None, []]}, {"$set": [[]]}, deep,
    ]  # fmt: skip
    for text in texts:
        with pytest.raises(notes.NotesError):
            notes.decode(text)


def test_a_file_cannot_have_other_classes_made() -> None:
    """Only enums, namedtuples and dataclasses of modules that are there; the rest is plain."""
    for kind in ("$namedtuple", "$dataclass"):
        for module, name in (
            ("subprocess", "Popen"), ("os", "system"), ("builtins", "type"), ("os", "path.join"),
            ("paceline.notes", "json"), ("nowhere", "C"), ("sys", "modules"), ("builtins", "tuple"),
            ("os", "stat_result"),
        ):  # fmt: skip
            back = notes.decode({kind: [module, name, [["args", "x"]]]}, where="x")
            assert back == (("x",) if kind == "$namedtuple" else {"args": "x"}), (module, name)
    assert notes.decode({"$enum": ["signal", "Popen", "SIGINT", 2]}) == 2
    assert notes.decode({"$enum": ["signal", "Signals", "SIGINT", 2]}) is signal.SIGINT
    assert notes.decode({"$enum": ["signal", "Signals", "NONE", 9]}) == 9


def test_intervals() -> None:
    assert parse_every(None) == {}
    assert parse_every(100) == {"steps": 100} == parse_every("100 steps")
    assert parse_every("30s") == {"milliseconds": 30_000}
    assert parse_every("1.5m") == {"milliseconds": 90_000}
    for wrong in ("", "s", "-3", "0", "5 parsecs"):
        with pytest.raises(ArgumentError):
            parse_every(wrong)
