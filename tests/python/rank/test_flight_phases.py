"""The phases that a rank records, from an unmodified script."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_double import starter
from flight_world import run_ranks
from paceline.errors import ArgumentError
from warm_process import Warm, warm_fixture

import paceline as pl
from paceline import _native

# torch._dynamo, because torch's wrappers and compilers load it.
warm = warm_fixture("torch", "torch.distributed", "torch._dynamo")

STEP = ["data", "forward", "backward", "forward", "optimizer", "unknown"]

TRAINING = """
from torch.utils.data import DataLoader
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1))
teacher = torch.nn.Linear(4, 4).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    model.train()
    for batch in DataLoader(torch.ones(2, 4), batch_size=1):
        (model(batch) - teacher(batch)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
train()
"""


def test_a_step_goes_through_its_phases(tmp_path: Path) -> None:
    (rank,) = run_ranks(tmp_path, TRAINING)
    # The teacher is in eval mode and changes nothing.
    assert rank.phases == [*STEP, *STEP, "data", "unknown"]


EVALUATION = """
for _ in range(9):
    train()  # the model is looked for after 20 steps
model.eval()
for batch in DataLoader(torch.ones(3, 4), batch_size=1):
    model(batch)
    assert reading()["phase"] == "evaluation"
train()
"""


def test_reading_in_eval_mode_is_evaluation_until_the_training_goes_on(
    tmp_path: Path, warm: Warm
) -> None:
    (rank,) = run_ranks(tmp_path, TRAINING + EVALUATION, warm=warm)
    training = [*STEP, *STEP, "data", "unknown"]
    assert rank.phases == [*training * 10, "evaluation", *training]


WRAPPED = """
inner = torch.nn.Linear(4, 4)
model = torch.nn.parallel.DistributedDataParallel(inner)
teacher = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4)).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train():
    (model(torch.ones(1, 4)) - teacher(torch.ones(1, 4))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
train()
train()
model.eval()
model(torch.ones(1, 4))
model.train()
train()
"""


def test_without_a_loader_the_calls_of_ddp_show_forward_and_evaluation(
    tmp_path: Path, warm: Warm
) -> None:
    step = ["forward", "backward", "forward", "optimizer", "unknown"]
    for rank in run_ranks(tmp_path, WRAPPED, ranks=2, warm=warm):
        assert rank.phases == [*step, *step, "evaluation", *step]


VALIDATED_AS_LIGHTNING_DOES = """
from torch.utils.data import DataLoader
model.eval()  # before the training; then only the module inside is set back to training
inner.train()
for _ in range(25):
    train()
    for batch in DataLoader(torch.ones(1, 4), batch_size=1):
        model(batch)
        assert reading()["phase"] == "forward"
inner.eval()
model(torch.ones(1, 4))
"""


def test_a_wrapper_left_in_eval_mode_around_a_module_that_trains_is_no_evaluation(
    tmp_path: Path
) -> None:
    step = ["forward", "backward", "forward", "optimizer", "unknown"]
    script = WRAPPED[: WRAPPED.index("train()\ntrain()")] + VALIDATED_AS_LIGHTNING_DOES
    for rank in run_ranks(tmp_path, script, ranks=2):
        assert rank.phases[:5] == step and rank.phases[-1] == "evaluation"
        assert rank.phases.count("evaluation") == 1


COMPILED = """
@torch.compile(backend="eager")
def double(x):
    return x * 2
assert reading()["phase"] == "start"
double(torch.ones(2))
double(torch.ones(2))
model = torch.nn.Linear(4, 4)
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
for _ in range(2):
    compiled(torch.ones(1, 4)).sum().backward()
    optimizer.step()
compiled.eval()
compiled(torch.ones(1, 4))
"""


def test_compiling_is_a_phase_and_a_compiled_model_shows_its_calls(tmp_path: Path) -> None:
    (rank,) = run_ranks(tmp_path, COMPILED)
    step = ["forward", "backward", "forward", "optimizer", "unknown"]
    first = ["compile", "start", "forward", "compile"]
    assert rank.phases == [*first, *step, *step, "evaluation"]


SAVES = """
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import save
state = {"a": torch.ones(2)}
torch.save(state, "one.pt")
dcp.save(state, checkpoint_id="two")
save(state, checkpoint_id="three")
import threading
other = threading.Thread(target=torch.save, args=(state, "four.pt"))
other.start()
other.join()
"""


def test_saving_is_a_phase_of_the_thread_that_runs_the_script(tmp_path: Path, warm: Warm) -> None:
    (rank,) = run_ranks(tmp_path, SAVES, warm=warm)
    assert rank.phases == ["checkpoint", "unknown"] * 3
    assert (tmp_path / "four.pt").exists()


CHECKPOINTER = """
import sys
from paceline.torch import Checkpointer
model = torch.nn.Linear(4, 4)
checkpointer = Checkpointer("checkpoints")
checkpointer.save(1, {"model": model})
checkpointer.save(2, {"model": model})
checkpointer.close()
"""


@pytest.mark.usefixtures("own_keeper")
def test_our_own_saves_are_the_same_phase(tmp_path: Path, warm: Warm) -> None:
    (rank,) = run_ranks(tmp_path, CHECKPOINTER, warm=warm)
    assert rank.phases == ["checkpoint", "start"] * 3


SAID = """
import paceline as pl
train()
with pl.phase("eval"):
    train()
    with pl.phase("checkpoint"):
        torch.save({}, "one.pt")
    assert reading()["phase"] == "evaluation"
try:
    with pl.phase("data"):
        raise KeyError
except KeyError:
    assert reading()["phase"] == "unknown"
"""


def test_what_a_script_says_counts_for_the_whole_block(tmp_path: Path, warm: Warm) -> None:
    (rank,) = run_ranks(tmp_path, TRAINING + SAID, warm=warm)
    training = [*STEP, *STEP, "data", "unknown"]
    said = ["evaluation", "checkpoint", "evaluation", "unknown", "data", "unknown"]
    assert rank.phases == [*training, *training, *said]


@pytest.mark.parametrize("name", ["evaluation", "", 3, None])
def test_another_name_of_a_phase_is_refused_with_the_known_ones(name: Any) -> None:
    with pytest.raises(ArgumentError, match='"eval", "checkpoint" or "data"'):
        pl.phase(name)


def test_a_rank_of_the_launcher_records_from_start_to_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n" + TRAINING)
    with starter(tmp_path, "--entry", "train.py") as running:
        env = {"PACELINE_RING": str(tmp_path / "ring")}
        for warm in (True, False):
            got = running.run("script", "train.py", warm=warm, env=env)
            assert got.status == 0, got.err
            ring = _native.read_ring((tmp_path / "ring").read_bytes())
            entries: Any = ring["entries"]
            phases = [entry["operation"] for entry in entries if entry["kind"] == 3]
            assert phases == [*STEP, *STEP, "data", "unknown", "end"], got.spawned["how"]


# Each way to compile a model, and what torch made of it.
GRAPHS = """
import json, logging, os
from torch._dynamo.utils import counters
logging.disable(logging.WARNING)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

def attempt(kind, wrap):
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 4))
    model = torch.nn.parallel.DistributedDataParallel(net) if wrap else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    graphs = []

    def backend(graph, _inputs):
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    def step(x):
        loss = model(x).sum()
        if kind == "whole step":
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss

    call = model
    if kind == "module":
        call = torch.compile(model, backend=backend)
    elif kind == "in place":
        model.compile(backend=backend)
    elif kind == "nested":
        model = torch.compile(model, backend=backend)
        call = torch.compile(step, backend=backend)
    elif kind in ("function", "whole step"):
        call = torch.compile(step, backend=backend)
    for number in range(5):
        loss = call(torch.ones(2 + number % 3, 4)).sum()
        if kind != "whole step":
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    call(torch.ones(2, 4))
    breaks = sorted(reason.splitlines()[0] for reason in counters["graph_break"])
    metrics = torch._dynamo.utils.get_compilation_metrics()
    compiled = [[m.co_name, m.recompile_reason] for m in metrics]
    torch._dynamo.utils.clear_compilation_metrics()
    return [graphs, dict(counters["stats"]), breaks, compiled]

def eager_first():
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()

eager_first()
found = {}
for wrap in (True, False):
    for kind in ("module", "in place", "function", "nested", "whole step"):
        found[f"{kind} {wrap}"] = attempt(kind, wrap)
print(json.dumps(found))
dist.destroy_process_group()
"""


def test_compiled_models_have_the_same_graphs_and_recompilations_with_us(
    tmp_path: Path, warm: Warm
) -> None:
    (with_us,) = run_ranks(tmp_path, GRAPHS, warm=warm)
    (without,) = run_ranks(tmp_path, GRAPHS, watched=False, warm=warm)
    ours: dict[str, Any] = json.loads(with_us.out)
    plain: dict[str, Any] = json.loads(without.out)
    assert any(graphs for graphs, *_ in plain.values())
    for kind, (graphs, stats, breaks, frames) in plain.items():
        assert ours[kind][:2] == [graphs, stats], kind
        assert _recompiled(ours[kind][3]) == _recompiled(frames), kind
        # An optimizer with hooks, as it is with us, breaks the graph of its step at those hooks. It
        # breaks there without us, too, at a call that says so.
        if not kind.startswith("whole step"):
            assert ours[kind][2:] == [breaks, frames], kind
    assert "compile" in with_us.phases


def _recompiled(frames: list[list[str | None]]) -> list[list[str | None]]:
    return [frame for frame in frames if frame[1] is not None]
