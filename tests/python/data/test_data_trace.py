"""`paceline data trace --checkpoint`: in which step of which epoch a loader read a sample."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_double import wait_until
from command import ROOT, paceline
from jsonschema import Draft202012Validator
from paceline.numpy import Checkpointer

from paceline.data import ElasticDataset, ElasticLoader

SAMPLES, BATCH = 103, 16
pytestmark = pytest.mark.usefixtures("own_keeper")


def traced(directory: Path, sample: int, *words: str) -> list[dict[str, Any]]:
    done = paceline("data", "trace", str(sample), "--checkpoint", str(directory), "--json", *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs/schemas/data_trace_steps.json").read_text())
    Draft202012Validator(schema).validate(answer)
    assert answer["sample"] == sample
    return answer["readings"]


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_is_found_in_the_step_that_read_it(tmp_path: Path, drop_last: bool) -> None:
    data = ElasticDataset(range(SAMPLES), seed=7, name="train")
    loader = ElasticLoader(data, global_batch=BATCH, drop_last=drop_last)
    other = ElasticLoader(ElasticDataset(range(40), shuffle=False), global_batch=8)
    state = {"w": np.zeros(3), "data": loader, "held_out": other}
    read: dict[int, list[tuple[int, int]]] = {sample: [] for sample in range(SAMPLES)}
    step = 0
    with Checkpointer(tmp_path / "c", every=1, keep=3) as ckpt:
        ckpt.restore(state)
        while step < 10:  # an epoch and a half
            for number, batch in enumerate(loader):
                for sample in batch:
                    read[sample].append((loader.epoch, number))
                ckpt.save(step, state).wait("durable")
                step += 1
                if step == 10:
                    break
    # The keeper tidies after its answer.
    wait_until(lambda: len(list((tmp_path / "c").glob("step-*"))) == 3, "older ones are gone")
    for sample in range(SAMPLES):
        found = traced(tmp_path / "c", sample, "--data", "train")
        assert [(one["epoch"], one["step_of_epoch"]) for one in found] == read[sample], sample
        for one in found:
            when = one["epoch"] * len(loader) + one["step_of_epoch"]
            assert one["checkpoint_step"] == max(when, 7), "three are kept: of steps 7, 8 and 9"
            assert one["rank"] == (0 if when > 7 else None), "nobody knows about the time before"
    assert traced(tmp_path / "c", 3, "--data", "held_out") == []
    table = paceline("data", "trace", "5", "--checkpoint", str(tmp_path / "c")).stdout
    assert "STEP OF EPOCH" in table and "train" in table


def test_what_cannot_be_traced_is_an_error_in_four_parts(tmp_path: Path) -> None:
    drawn = ElasticDataset(range(8), sampler=list(range(8)))
    state = {"w": np.zeros(3), "data": ElasticLoader(drawn, global_batch=4)}
    with Checkpointer(tmp_path / "c", every=1) as ckpt:
        ckpt.restore(state)
        ckpt.save(0, state).wait("durable")
    place = str(tmp_path / "c")
    for words, what in (
        (("trace", "3", "--checkpoint", place), "no data set has a sample 3"),
        (("trace", "3", "--checkpoint", place, "--data", "x"), "has the position of such a loader"),
        (("trace", "3", "--checkpoint", str(tmp_path / "none")), "there is no checkpoint"),
        (("trace", "x", "--checkpoint", place), "--checkpoint is for `trace`"),
        (("ls", "--checkpoint", place), "--checkpoint is for `trace`"),
    ):
        done = paceline("data", *words)
        assert done.returncode != 0 and what in done.stderr, (words, done.stderr)
