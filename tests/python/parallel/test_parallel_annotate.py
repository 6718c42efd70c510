"""Annotations: which modules they bind, what they ask of the search, and what they refuse."""

import copy
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from command import DEADLINE_S
from paceline._rank.error_record import describe as describe_error
from paceline.parallel import PlanError, assign, describe, parallelize, replicate, split, stage
from paceline.parallel.annotate import part_of, stage_of
from paceline.parallel.asked import Asked, asked_of
from paceline.parallel.layers import layers_of
from paceline.parallel.tensor import division_of
from paceline.torch import ArgumentError
from test_parallel_tensor import llama
from torch import nn
from torch.nn.functional import mse_loss

from paceline import _native

ANY: dict[str, Any] = {"number": 3, "text": "split"}
PAIR = (torch.zeros(8, 8), torch.zeros(8, 4))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def asked(model: nn.Module, world_size: int | None = None) -> Asked:
    return asked_of(model, layers_of(model), world_size)


def annotated(module: nn.Module, scope: Any) -> nn.Module:
    assign(module, scope)
    return module


def source_line(number: object) -> str:
    return Path(__file__).read_text().splitlines()[int(str(number)) - 1]


def body() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh())


# ---- what is bound ----


@pytest.mark.parametrize("make", [lambda: split(2), lambda: replicate(2), stage])
def test_a_scope_without_modules_is_refused(make: Any) -> None:
    with pytest.raises(PlanError, match=r"has no modules") as caught, make():
        nn.Tanh()
    assert caught.value.where.startswith("test_parallel_annotate.py:")
    with pytest.raises(KeyError), make():
        raise KeyError  # the script's own error


def test_the_record_of_an_error_names_the_line_of_the_annotation() -> None:
    with pytest.raises(PlanError) as caught:
        asked(nn.Sequential(nn.Linear(8, 8), annotated(nn.Linear(8, 4), split(2))), 1)
    record = describe_error(caught.value, -1, 0)
    where = caught.value.where
    assert where == f"test_parallel_annotate.py:{record['line']}"
    assert record["file"] == __file__
    assert "annotated(nn.Linear(8, 4), split(2))" in source_line(record["line"])


def test_text_for_a_number_is_suggested_as_a_number() -> None:
    with pytest.raises(ArgumentError) as caught:
        replicate("2")  # type: ignore[arg-type]
    assert caught.value.fix == "devices=2"


def test_what_is_built_inside_is_bound_and_nothing_else() -> None:
    before = nn.Linear(8, 8)
    with replicate() as whole:
        inside = body()
        inside.add_module("given", before)
    with split(2) as shared:
        head = nn.Linear(8, 4)
    after = nn.Linear(8, 8)
    assert part_of(inside[0]) is whole and part_of(head) is shared
    assert part_of(before) is None and part_of(after) is None
    assert copy.deepcopy(head).weight.shape == (4, 8)
    assert part_of(copy.deepcopy(head)) is shared, "copies of a block are built in its scope"


def test_another_thread_builds_its_own_modules() -> None:
    found: list[nn.Module] = []
    with split(2):
        thread = threading.Thread(target=lambda: found.append(nn.LayerNorm(8)))
        thread.start()
        thread.join()
        nn.Linear(8, 4)
    assert part_of(found[0]) is None


def test_no_hook_is_left_behind() -> None:
    with pytest.raises(KeyError), replicate():
        raise KeyError
    assert part_of(nn.Linear(4, 4)) is None
    with replicate():
        pass  # none of them is still open


def test_modules_of_others_are_assigned() -> None:
    model: Any = llama()
    assign(model.model.layers[:2], stage())
    assign([model.model.layers[2], model.lm_head], stage())
    assign(model.lm_head, split(2))
    assert stage_of(model.model.layers[0]) is stage_of(model.model.layers[1])
    told = asked(model)
    assert told.wishes == {"pipeline": [2], "tensor": [2]}
    # embedding, three blocks, norm, head: the embedding goes with the first stage.
    assert sorted(told.cuts) == [0, 1, 3, 4]


# ---- what they ask ----


def test_a_split_module_takes_and_gives_whole_tensors() -> None:
    with split(2) as scope:
        model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 4))
    found = division_of(model)
    assert found.styles == {"0": "embedding_rowwise", "1": "colwise_gather_output"}
    assert found.divides == 2
    told = asked(model)
    assert told.wishes == {"tensor": [2]}
    assert told.because == {"tensor": f"split(2) of {scope.place} asks for it"}
    assert scope.place.startswith("test_parallel_annotate.py:")


def test_stages_are_where_they_were_written() -> None:
    with stage() as first:
        one = body()
    with stage():
        two = nn.Linear(8, 4)
    model = nn.Sequential(*one, nn.Tanh(), two)
    told = asked(model)
    assert told.wishes == {"pipeline": [2]}
    assert told.cuts == dict.fromkeys([0, 1], f"{first.place} has these layers in one stage")
    summary = describe(model, PAIR, mse_loss)
    assert [bool(row.get("cut")) for row in summary["layers"]] == [True, True, False, False]


def test_stages_of_one_line_are_named_once() -> None:
    layers = [annotated(nn.Linear(8, 8), scope) for scope in (stage(), stage())]
    place = stage_of(layers[0]).place  # type: ignore[union-attr]
    assert asked(nn.Sequential(*layers)).because["pipeline"] == f"the stages of {place} ask for it"


def test_counted_replicas_are_stages_that_are_repeated() -> None:
    with replicate(1):
        one = nn.Linear(8, 8)
    with replicate(1):
        two = nn.Linear(8, 4)
    model = nn.Sequential(one, two)
    assert asked(model, 4).wishes == {"pipeline": [2], "data": [2]}
    assert asked(model).wishes == {"pipeline": [2]}, "the devices are not known yet"


def test_one_counted_replica_is_the_whole_model_on_all_devices() -> None:
    with replicate(2) as scope:
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    told = asked(model, 6)
    assert told.wishes == {"pipeline": [1], "data": [6]}
    assert told.because["pipeline"] == f"replicate(2) of {scope.place} asks for it"
    with pytest.raises(PlanError, match="ask for 2 devices"):
        asked(model, 5)


def test_replicate_takes_modules_out_of_the_plan_of_transformers() -> None:
    model: Any = llama()
    for layer in model.model.layers:
        assign(layer.mlp, replicate())
    styles = division_of(model).styles
    assert not any("mlp" in name for name in styles)
    assert styles["model.layers.0.self_attn.q_proj"] == "colwise"
    assign(model.model.layers[0].self_attn.q_proj, replicate())
    with pytest.raises(PlanError, match="cannot be whole alone"):
        division_of(model)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("outer", "inner"),
    [(replicate, replicate), (replicate, lambda: split(2)), (lambda: split(2), replicate),
     (lambda: split(2), lambda: split(2)), (stage, stage), (stage, lambda: replicate(1)),
     (replicate, stage)],
)  # fmt: skip
def test_nested_strategies_are_refused(outer: Any, inner: Any) -> None:
    with outer() as first:
        nn.Linear(8, 4)
        with pytest.raises(PlanError, match="is within") as caught, inner():
            pass
    assert first.place in caught.value.why
    assert caught.value.where.startswith("test_parallel_annotate.py:")


def test_a_stage_may_hold_divided_modules() -> None:
    with stage() as outer, split(2) as inner:
        head = nn.Linear(8, 4)
    assert (stage_of(head), part_of(head)) == (outer, inner)


@pytest.mark.parametrize(
    ("make", "what", "why"),
    [(lambda: nn.Linear(8, 5), "cannot be split over 2 ranks", "5 columns, and 2 does not"),
     (lambda: nn.Embedding(7, 8), "cannot be split over 2 ranks", "7 words"),
     (lambda: nn.LayerNorm(8), "LayerNorm cannot be split", "Linear by columns")],
)  # fmt: skip
def test_a_module_that_two_ranks_cannot_share_is_refused_where_it_is_built(
    make: Any, what: str, why: str
) -> None:
    with pytest.raises(PlanError, match=what) as caught, split(2):
        make()
    assert why in caught.value.why
    assert caught.value.where.startswith("test_parallel_annotate.py:"), "not a line of torch"


def test_a_module_of_others_is_refused_at_the_script_s_own_line() -> None:
    with pytest.raises(PlanError, match="cannot be split") as caught, split(3) as scope:
        llama()
    assert caught.value.where.startswith("test_parallel_annotate.py:"), "not one of transformers"
    assert int(caught.value.where.rpartition(":")[2]) == int(scope.place.rpartition(":")[2]) + 1


def refused(make: Any, world_size: int | None = None) -> PlanError:
    model = make()
    with pytest.raises(PlanError) as caught:
        asked(model, world_size)
        division_of(model)
    assert caught.value.where.startswith("test_parallel_annotate.py:")
    return caught.value


def test_two_degrees_are_refused() -> None:
    def make() -> nn.Module:
        with split(2):
            one = nn.Linear(8, 8)
        with split(4):
            return nn.Sequential(one, nn.Linear(8, 4))

    assert refused(make).what == "split(2) and split(4) are in one model"


def test_a_split_weight_of_two_modules_is_refused() -> None:
    def make() -> nn.Module:
        with split(2):
            one, two = nn.Embedding(4, 8), nn.Linear(8, 4)
        two.weight = one.weight
        return nn.Sequential(one, two)

    assert "0 cannot be split" in refused(make).what


def test_a_module_that_transformers_divides_otherwise_is_refused() -> None:
    model: Any = llama()
    assign(model.model.layers[0].mlp.up_proj, split(2))
    with pytest.raises(PlanError, match="up_proj cannot be split"):
        division_of(model)


def test_stages_that_do_not_follow_each_other_are_refused() -> None:
    def make(order: str) -> nn.Module:
        scopes = {"a": stage(), "b": stage()}
        layers = [nn.Linear(8, 8) for _ in order]
        for name, layer in zip(order, layers, strict=True):
            assign(layer, scopes[name])
        return nn.Sequential(*layers)

    assert "do not follow each other" in refused(lambda: make("aba")).what
    assert "one stage is no pipeline" in refused(lambda: make("aa")).what
    assert asked(make("ab")).wishes == {"pipeline": [2]}


def test_a_layer_in_two_stages_is_refused() -> None:
    def make() -> nn.Module:
        block = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        assign(block[0], stage())
        assign(block[1], stage())
        return nn.Sequential(block, nn.Linear(8, 4))

    assert refused(make).what == "layer 0 is in two stages"


def test_too_many_devices_are_refused() -> None:
    def make() -> nn.Module:
        with replicate(2):
            one = nn.Linear(8, 8)
        with replicate(2):
            return nn.Sequential(one, nn.Linear(8, 4))

    assert "world has 3, which is less" in refused(make, 3).why
    assert "4 does not divide that" in refused(make, 6).why
    assert asked(make(), 8).wishes == {"pipeline": [2], "data": [4]}


def test_a_module_is_assigned_once() -> None:
    layer = nn.Linear(8, 4)
    assign(layer, split(2))
    with pytest.raises(PlanError, match="two annotations"):
        assign(layer, replicate())


@pytest.mark.parametrize(
    "wrong",
    [lambda: split(0), lambda: replicate(-1), lambda: assign(ANY["number"], split(2)),
     lambda: assign(nn.Tanh(), ANY["text"])],
)  # fmt: skip
def test_wrong_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        wrong()
    assert caught.value.fix


# ---- the search ----


def test_one_process_is_too_few_for_a_split_and_nothing_is_formed() -> None:
    with split(2):
        model = nn.Sequential(nn.Linear(8, 4))
    with pytest.raises(PlanError, match="ask for 2 devices") as caught:
        parallelize(model, optimizer=sgd, loss=mse_loss, example=PAIR, global_batch=8)
    assert caught.value.where.startswith("test_parallel_annotate.py:")
    assert not torch.distributed.is_initialized()


def test_wishes_and_annotations_have_to_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with replicate(1):
        one = nn.Linear(8, 8)
    with replicate(1):
        model = nn.Sequential(one, nn.Linear(8, 4))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(PlanError, match="wishes for pipeline and an annotation") as caught:
        parallelize(model, optimizer=sgd, loss=mse_loss, example=PAIR, global_batch=8,
                    wishes={"pipeline": [1]})  # fmt: skip
    assert "the stages of test_parallel_annotate.py:" in caught.value.why


def cluster_of(devices: int) -> str:
    link = {"seconds": 1e-5, "bandwidth": 1e9}
    kind = {"name": "any", "flops": 1e12, "bandwidth": 1e11, "launch": 0.0, "memory": 1 << 40,
            "source": "drawn"}  # fmt: skip
    return json.dumps({"schema": "paceline.cluster/1", "types": [kind], "node": devices,
                       "groups": [{"type": "any", "count": devices}], "inner": link,
                       "outer": link})  # fmt: skip


def test_the_planner_keeps_to_them_and_says_who_asked() -> None:
    with split(2) as scope:
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    wishes = {"global_batch": 8, "tensor": [2], "because": asked(model).because}
    summary = json.dumps(describe(model, PAIR, mse_loss))
    plan = json.loads(_native.choose_plan(summary, cluster_of(4), json.dumps(wishes)))
    assert plan["tensor"] == 2
    told = {one["plan"]: one["because"] for one in plan["rejected"]}
    assert told["tensor other than 2"] == f"split(2) of {scope.place} asks for it"
    with pytest.raises(ValueError, match="2 does not divide 1") as caught:
        odd = json.dumps(describe(model, PAIR, mse_loss) | {"tensor_divides": 1})
        _native.choose_plan(odd, cluster_of(4), json.dumps(wishes))
    assert scope.place in str(caught.value)


SCRIPT = """
import torch
from torch import nn
from paceline import parallel

with parallel.stage():
    body = nn.Linear(8, 8)
with parallel.stage(), parallel.split(2):
    head = nn.Linear(8, 4)
pair = (torch.zeros(8, 8), torch.zeros(8, 4))
parallel.parallelize(nn.Sequential(body, nn.Tanh(), head), optimizer=torch.optim.SGD,
                     loss=nn.functional.mse_loss, example=pair, global_batch=8)
"""


def test_a_planned_script_keeps_its_annotations(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    binary = Path(sys.executable).parent / "paceline"
    command = [binary, "plan", "--json", "--cluster", "H100-80G:8", "train.py"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True,
                          env=os.environ, timeout=DEADLINE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["tensor"], len(plan["stages"])) == (2, 2)
    told = {one["plan"]: one["because"] for one in plan["rejected"]}
    assert told["pipeline other than 2"] == "the stages of train.py:6 to train.py:8 ask for it"
    assert told["tensor other than 2"] == "split(2) of train.py:8 asks for it"
