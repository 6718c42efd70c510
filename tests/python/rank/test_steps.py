"""The step hook and the calls of the package."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from agent_double import Starter, plain_environment, starter
from paceline._rank.hooks.steps import step_hooks
from paceline._rank.step_times import StepTimes


class Loop:
    """Plays torch's step wrapper: hooks around a step."""

    def __init__(self) -> None:
        self.reports = 0
        self.before, self.after = step_hooks(self._report)

    def _report(self) -> None:
        self.reports += 1

    def step(self, optimizer: object) -> None:
        self.before(optimizer, (), {})
        self.after(optimizer, (), {})


def test_one_optimizer_counts_every_step() -> None:
    loop, one = Loop(), object()
    for _ in range(5):
        loop.step(one)
    assert loop.reports == 5


def test_two_optimizers_in_an_iteration_count_once() -> None:
    loop, one, two = Loop(), object(), object()
    for _ in range(5):
        loop.step(one)
        loop.step(two)
    assert loop.reports == 5


def test_five_to_one_counts_as_the_busier_one() -> None:
    loop, critic, generator = Loop(), object(), object()
    for _ in range(4):
        for _ in range(5):
            loop.step(critic)
        loop.step(generator)
    assert loop.reports == 20


def test_optimizers_that_take_turns_always_show_progress() -> None:
    loop, one, two = Loop(), object(), object()
    for turn in range(6):
        before = loop.reports
        for _ in range(10):
            loop.step((one, two)[turn % 2])
        assert loop.reports - before >= 9


SCRIPT = """
import torch, sys
import paceline as pl
kind = sys.argv[1]
model = torch.nn.Linear(2, 2)
params = list(model.parameters())
def loss(): return model(torch.ones(1, 2)).sum()
def train(optimizer, n):
    for _ in range(n):
        optimizer.zero_grad(); loss().backward(); optimizer.step()
class Sub(torch.optim.SGD):
    fail = False
    def step(self, closure=None):
        out = super().step(closure)
        if self.fail:
            raise ValueError("in step")
        return out
if kind == "sgd":
    train(torch.optim.SGD(params, lr=0.1), 7)
elif kind == "two":
    one, two = torch.optim.AdamW(params[:1], lr=0.1), torch.optim.SGD(params[1:], lr=0.1)
    for _ in range(7):
        loss().backward(); one.step(); two.step()
elif kind == "subclass":
    torch.optim.SGD(params, lr=0.1)  # so that both step methods are wrapped
    train(Sub(params, lr=0.1), 7)
elif kind == "failing_step":
    torch.optim.SGD(params, lr=0.1)
    optimizer = Sub(params, lr=0.1)
    train(optimizer, 3)
    for _ in range(2):
        optimizer.fail = True
        try: train(optimizer, 1)
        except ValueError: pass
        optimizer.fail = False
        train(optimizer, 2)
elif kind == "closure":
    optimizer = torch.optim.LBFGS(params, lr=0.1, max_iter=4)
    def closure():
        optimizer.zero_grad(); out = (loss() - 3) ** 2; out.backward(); return out
    for _ in range(7): optimizer.step(closure)
elif kind == "scaler":
    optimizer = torch.optim.SGD(params, lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for i in range(7):
        optimizer.zero_grad(); scaler.scale(loss() * (float("inf") if i == 2 else 1)).backward()
        scaler.step(optimizer); scaler.update()
elif kind == "compiled":
    optimizer = torch.optim.SGD(params, lr=0.1)
    @torch.compile(backend="eager")
    def one(): optimizer.step()
    for _ in range(7):
        optimizer.zero_grad(); loss().backward(); one()
elif kind == "absolute":
    optimizer = torch.optim.SGD(params, lr=0.1)
    for n in range(100, 107):
        train(optimizer, 1)
        pl.step(n, loss=0.25 * n, total=900)
    pl.saved(105)
elif kind == "resumed":
    optimizer = torch.optim.AdamW(params, lr=0.1)
    train(torch.optim.SGD(params, lr=0.1), 1) if len(sys.argv) > 2 else None
    for p in params:
        optimizer.state[p] = {"step": torch.tensor(40.0), "exp_avg": torch.zeros_like(p),
                              "exp_avg_sq": torch.zeros_like(p)}
    train(optimizer, 3)
elif kind == "files":
    import io, torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file
    torch.save({"a": params[0]}, io.BytesIO())
    torch.save({"a": params[0]}, "one.pt")
    torch.save({"a": params[0]}, f=__import__("pathlib").Path("two.pt"))
    save_file({"a": params[0].detach()}, "three.safetensors")
    dcp.save({"a": params[0]}, checkpoint_id="four")
    print(torch.load("two.pt")["a"].shape)
elif kind == "workers":
    data = torch.utils.data.TensorDataset(torch.ones(8, 2))
    optimizer = torch.optim.SGD(params, lr=0.1)
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1,
                                             multiprocessing_context=context)
        for _ in loader: train(optimizer, 1)
elif kind == "threads":
    print(torch.get_num_threads(), float((torch.ones(500, 500) @ torch.ones(500, 500)).sum()))
elif kind == "seeds":
    import numpy
    print(torch.initial_seed(), torch.rand(1).item(), numpy.random.rand())
elif kind == "seeded":
    torch.manual_seed(3); import numpy; numpy.random.seed(3)
    print(torch.rand(3).tolist(), numpy.random.rand(2).tolist(), torch.randn(2, 2).tolist())
print(pl.is_managed(), pl.rank(), pl.world_size())
"""
MAIN_GUARD = "if __name__ == '__main__':\n"


@pytest.fixture(scope="module")
def torched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """A starter that has torch loaded."""
    folder = tmp_path_factory.mktemp("torched")
    body = "".join(f"    {line}\n" for line in SCRIPT.splitlines())
    (folder / "train.py").write_text("import torch\n" + MAIN_GUARD + body)
    with starter(folder, "--entry", "train.py") as running:
        assert running.peer.ready["warm"], running.peer.ready
        yield running


# A step that fails is no step; the scaler skips the one with infinite gradients.
COUNTS = [
    ("sgd", 7),
    ("two", 7),
    ("subclass", 7),
    ("failing_step", 7),
    ("closure", 7),
    ("scaler", 6),
    ("compiled", 7),
    ("workers", 4),
]


@pytest.mark.parametrize(("kind", "steps"), COUNTS)
def test_steps_reach_the_page_from_an_unmodified_script(
    torched: Starter, kind: str, steps: int
) -> None:
    got = torched.run("script", "train.py", kind)
    assert (got.status, got.spawned["how"]) == (0, "fork"), (got.err, got.spawned)
    slot = torched.slot()
    flags = 6 if kind == "two" else 2  # AdamW counts its own steps
    assert (slot["step"], slot["step_count"], slot["flags"]) == (steps, steps, flags), got.err
    assert 0 < slot["entered_monotonic_ns"] < slot["first_step_monotonic_ns"]
    assert slot["first_step_monotonic_ns"] <= slot["last_step_monotonic_ns"]
    if kind != "compiled":  # torch says there that it leaves its profiler out
        assert got.err == ""


def test_cold_start_counts_as_well(torched: Starter) -> None:
    got = torched.run("script", "train.py", "sgd", warm=False)
    assert (got.status, got.spawned["how"]) == (0, "cold"), got.err
    assert (torched.slot()["step"], torched.slot()["flags"]) == (7, 2)


def test_absolute_steps_loss_and_checkpoint(torched: Starter) -> None:
    got = torched.run("script", "train.py", "absolute")
    assert got.out == "True 0 4\n", got.err
    slot = torched.slot()
    assert (slot["step"], slot["loss"], slot["saved_step"]) == (106, 26.5, 105)
    assert slot["flags"] == 1 | 2 | 8
    assert slot["steps_total"] == 900


def test_steps_go_on_from_the_step_of_a_loaded_optimizer(torched: Starter) -> None:
    got = torched.run("script", "train.py", "resumed")
    slot = torched.slot()
    assert (slot["step"], slot["step_count"], slot["flags"]) == (43, 3, 6), got.err
    # The first optimizer that steps says where the training was.
    got = torched.run("script", "train.py", "resumed", "late")
    slot = torched.slot()
    assert (slot["step_count"], slot["flags"]) == (slot["step"], 2), got.err


def test_checkpoints_that_a_script_writes_to_a_path_are_counted(torched: Starter) -> None:
    got = torched.run("script", "train.py", "files")
    assert got.status == 0, got.err
    assert torched.slot()["saved_files"] == 4, "not the one into memory"


def test_threads_are_set_after_the_fork(torched: Starter) -> None:
    assert torched.run("script", "train.py", "threads", omp_threads=2).out.startswith("2 1250")
    got = torched.run(
        "script", "train.py", "threads", omp_threads=None, env={"OMP_NUM_THREADS": "3"}
    )
    assert got.out.startswith("3 1250")


def test_seeds_are_fresh_and_seeded_runs_are_equal(torched: Starter) -> None:
    first, second = (torched.run("script", "train.py", "seeds").out.split() for _ in range(2))
    assert all(a != b for a, b in zip(first[:3], second[:3], strict=True))
    warm = torched.run("script", "train.py", "seeded").out
    assert warm == torched.run("script", "train.py", "seeded", warm=False).out


def test_error_record_names_place_and_step(torched: Starter) -> None:
    (torched.folder / "breaks.py").write_text(
        "import torch, paceline as pl\ndef bad():\n    torch.ones(2) @ torch.ones(3)\n"
        "pl.step(41)\nbad()\n"
    )
    got = torched.run("script", "breaks.py", rank=3)
    record: dict[str, Any] = torched.error_record(got.spawned)
    assert (record["type"], record["step"], record["rank"]) == ("RuntimeError", 41, 3)
    assert (record["line"], record["function"]) == (3, "bad")
    assert record["file"] == str(torched.folder / "breaks.py")
    assert record["traceback"] == got.err
    assert torched.slot(3)["error_monotonic_ns"] == record["monotonic_ns"] > 0


def test_package_is_harmless_without_a_launcher(tmp_path: Path) -> None:
    code = (
        "import sys, paceline as pl\n"
        "heavy = ('torch', 'numpy', 'json', 'socket', 'ast', 'pathlib')\n"
        "print([m for m in heavy if m in sys.modules])\n"
        "pl.step(3, loss=1.0); pl.saved(2)\n"
        "with pl.phase('eval'), pl.phase('data'): pass\n"
        "print(pl.is_managed(), pl.rank(), pl.local_rank(), pl.world_size(), pl.generation())\n"
    )
    env = plain_environment()
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\nFalse 0 0 1 0\n"


def test_torch_elastics_own_record_still_works(torched: Starter) -> None:
    (torched.folder / "recorded.py").write_text(
        "import torch\nfrom torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise ValueError('both know')\nmain()\n"
    )
    theirs = torched.folder / "elastic_error.json"
    got = torched.run("script", "recorded.py", env={"TORCHELASTIC_ERROR_FILE": str(theirs)})
    assert (got.status, got.spawned["how"]) == (1 << 8, "fork"), got.spawned
    assert "both know" in theirs.read_text()
    assert torched.error_record(got.spawned)["message"] == "both know"
    assert torched.error_record(got.spawned)["function"] == "main"


def _timed(*steps: int, counted_first: bool = False) -> list[int]:
    made: list[int] = []
    times = StepTimes(made.append)
    if counted_first:
        times.counted()
    for step in steps:
        times.told(step)
    return made


def test_a_script_without_optimizer_is_timed_by_its_own_reports() -> None:
    assert _timed(7, 8, 9) == [1, 1, 1]
    assert _timed(10, 20, 30) == [1, 10, 10]
    assert _timed(5, 5, 6) == [1, 1]  # a save reports its step, too


def test_a_jump_of_the_script_s_count_is_no_time_of_steps() -> None:
    assert _timed(50, 3, 4) == [1, 1]
    assert _timed(0, 1_000_000, 1_000_001) == [1, 1]


def test_an_optimizer_times_the_steps_once_it_has_stepped() -> None:
    assert _timed(0, 1, 2, counted_first=True) == [1]


def test_reports_of_another_thread_are_not_timed() -> None:
    made: list[int] = []
    times = StepTimes(made.append)
    other = Thread(target=times.told, args=(4,))
    other.start()
    other.join()
    assert made == []
