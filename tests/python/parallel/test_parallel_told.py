"""Which plan runs is told to the master: events, why, status and `paceline plan --show` say so."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import DEADLINE_S, ROOT, find_binary
from jsonschema import Draft202012Validator
from paceline.parallel.agree import Answer, Kept, Question
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.told import tell_agent

SHOW = json.loads((ROOT / "docs/schemas/plan_show.json").read_text())
STATUS = json.loads((ROOT / "docs/schemas/status.json").read_text())


@pytest.fixture
def place(tmp_path: Path) -> Iterator["Place"]:
    found = Place(tmp_path)
    yield found
    shutil.rmtree(found.runtime, ignore_errors=True)


class Place:
    """A folder with one job, and the commands about it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runtime = Path("/tmp") / f"pl-told-{os.getpid()}-{path.name[-12:]}"
        kept = ("PET_", "PACELINE_", "RANK", "WORLD_SIZE")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(kept)}
        # Nothing here is about silence, and an agent on a busy host may be silent for long. The
        # first world has all nodes, however late the last one comes.
        self.environment |= {"PACELINE_TIMERS_LOST_AFTER": "15s",
                             "PACELINE_TIMERS_JOIN_WINDOW": "60s",
                             "PACELINE_RUNTIME_DIR": str(self.runtime),
                             "XDG_CACHE_HOME": str(path / "cache")}  # fmt: skip

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [find_binary(), *words], check=False, cwd=self.path, env=self.environment,
            capture_output=True, text=True, timeout=DEADLINE_S,
        )  # fmt: skip

    def told(self, *words: str) -> str:
        done = self.ask(*words, "--job", str(self.path / "run"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: str, nodes: tuple[str, ...] = ()) -> str:
        flags = ["--run-dir", "run", "--standalone", *nodes]
        done = self.ask("run", *flags, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def events_of(place: Place) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.told("events", "--json").splitlines()]


def chosen(events: list[dict[str, Any]]) -> list[str]:
    return [one["sentence"] for one in events if one["kind"] == "parallel_plan_chosen"]


def test_the_plan_of_each_world_is_told(place: Place) -> None:
    out = place.run("--nproc-per-node", "2", str(ROOT / "examples/parallel.py"), "--steps", "8",
                    "--pipeline", "2", "--kill-at", "4", "--kill-rank", "1")  # fmt: skip
    events = events_of(place)
    (model,) = [one for one in events if one["kind"] == "model_described"]
    assert re.search(r"with [\d.]+ million parameters; a step takes 24 samples", model["sentence"])
    first, second = chosen(events)
    assert first.startswith("world 1 trains by the plan data 1 × pipeline 2")
    assert "as predicted: it is chosen for these devices" in first
    assert second.startswith("world 2 trains by the plan data 1 × pipeline 2")
    assert "the checkpoint has it, for the same devices" in second
    assert first in out, "the console tells it too"
    assert second in place.told("why")
    status = json.loads(place.told("status", "--json"))
    Draft202012Validator(STATUS).validate(status)
    assert status["plan"]["words"].startswith("data 1 × pipeline 2")
    assert status["plan"]["generation"] == 2
    shown = json.loads(place.told("plan", "--show", "--json"))
    Draft202012Validator(SHOW).validate(shown)
    (resumed,) = re.findall(r"resumed at step (\d+)", out)
    assert shown["measured"]["steps"] == 8 - int(resumed) - 1, "those of the second world"
    assert 0 < shown["measured"]["step_seconds"] < 60
    assert [one["ranks"] for one in shown["plan"]["stages"]] == [[0], [1]]
    text = place.told("plan", "--show")
    assert "predicted, " in text and "measured (" in text
    assert "STAGE" in text


def test_a_job_without_a_plan_says_so(place: Place) -> None:
    (place.path / "plain.py").write_text("print('trains')\n")
    place.run("plain.py")
    done = place.ask("plan", "--show", "--job", str(place.path / "run"))
    assert done.returncode != 0 and "PL-E123" in done.stderr
    assert json.loads(place.told("status", "--json"))["plan"] is None


@pytest.mark.long
def test_after_a_lost_node_another_plan_takes_over(place: Place) -> None:
    script = place.path / "lost.py"
    script.write_text(LOST)
    place.run(str(script), nodes=("--local-nodes", "3", "--nnodes", "2:3",
                                   "--replace-nodes", "off"))
    first, second = chosen(events_of(place))
    assert first.startswith("world 1 trains by the plan data 3")
    assert second.startswith("world 2 trains by the plan data 2 instead of data 3")
    assert second in place.told("why")


@pytest.mark.long
def test_a_world_that_cannot_hold_the_model_is_not_formed(place: Place) -> None:
    script = place.path / "lost.py"
    script.write_text(LOST)
    command = [find_binary(), "run", "--run-dir", "run", "--standalone", "--local-nodes", "2",
               "--nnodes", "1:2", "--replace-nodes", "off", str(script), "--small"]  # fmt: skip
    with subprocess.Popen(command, cwd=place.path, env=place.environment, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as job:  # fmt: skip
        try:
            assert job.stderr is not None
            for line in job.stderr:
                if "waits for more devices: the model does not fit" in line:
                    break
            status = json.loads(place.told("status", "--json"))
            assert status["world"]["size"] == 0
            assert "what would help: " in status["job"]["pending"]
        finally:
            job.terminate()
            job.communicate(timeout=DEADLINE_S)


LOST = '''
"""Trains by a plan; the last rank's agent and all its ranks are killed once, for good."""
import os, signal, sys
import paceline.torch as pl
import torch
from pathlib import Path
from torch import nn
from torch.nn.functional import mse_loss
from paceline import parallel

SMALL = "--small" in sys.argv
ROOM = 3_700_000 if SMALL else 1 << 40


def cluster(count):
    kind = {"name": "cpu", "flops": 1e10, "bandwidth": 1e10, "launch": 1e-5, "memory": ROOM,
            "source": "test"}
    link = {"seconds": 1e-5, "bandwidth": 1e9}
    return {"schema": "paceline.cluster/1", "types": [kind],
            "groups": [{"type": "cpu", "count": count}], "node": 1, "inner": link, "outer": link}


class Numbers:
    def __len__(self):
        return 1200

    def __getitem__(self, index):
        return torch.full((8,), index / 1200), torch.zeros(2)


def main():
    torch.manual_seed(1)
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    width = 256 if SMALL else 16
    inner = [nn.Linear(width, width) for _ in range(4 if SMALL else 1)]
    net = nn.Sequential(nn.Linear(8, width), nn.Tanh(), *inner, nn.Linear(width, 2))
    wishes = {"data": [size], "pipeline": [1]}
    if SMALL:
        wishes = {"pipeline": [1], "shard": [True, False], "recompute": [False]}
    with pl.Checkpointer("saved", every=2) as ckpt:
        job = parallel.parallelize(
            net, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3), loss=mse_loss,
            example=(torch.zeros(2, 8), torch.zeros(2, 2)), global_batch=12, wishes=wishes,
            cluster=cluster(size), checkpointer=ckpt)
        loader = job.loader(Numbers(), seed=1)
        state = {**job.state, "data": loader}
        step = ckpt.restore(state)
        while step < 12:
            for batch in loader:
                job.step(batch)
                ckpt.save(step, state)
                step += 1
                if step == 5 and rank == size - 1 and pl.generation() <= 1:
                    page = Path(os.environ["PACELINE_RUN_DIR"], "nodes",
                                os.environ["PACELINE_NODE"], "agent.json")
                    import json
                    agent = json.loads(page.read_text())["pid"]
                    os.kill(agent, signal.SIGSTOP)
                    os.kill(agent, signal.SIGKILL)
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 12:
                    break


main()
'''


def answer() -> tuple[Question, Answer]:
    text = json.dumps({
        "schema": "paceline.plan/1", "model": "0" * 16, "global_batch": 4, "data": 1, "tensor": 1,
        "shard": False, "recompute": False, "micro_batches": 1, "schedule": "none",
        "stages": [{"layers": [0, 1], "ranks": [0]}], "shares": [4], "unused": [],
        "predicted": {"step": 0.5, "compute": 0.5, "communication": 0.0, "bubble": 0.0,
                      "memory": [1]},
        "bound": 0.5, "because": "one device does it", "rejected": [],
    })  # fmt: skip
    return Question("{}", {"global_batch": 4}), Answer(
        ParallelPlan.parse(text), Kept(text, "", []), "it is chosen", "{}"
    )


def test_training_goes_on_where_no_agent_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("PACELINE_CHECKPOINT_SOCKET", raising=False)
    tell_agent(*answer())
    assert caplog.records == []
    monkeypatch.setenv("PACELINE_CHECKPOINT_SOCKET", str(tmp_path / "nobody"))
    tell_agent(*answer())
    assert "the agent was not told of the plan" in caplog.text

