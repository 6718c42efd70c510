"""A job in one process: its data, its errors, its plan in a checkpoint, a planning run."""

import json
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from paceline.parallel import PlanError, cluster, describe, memory, parallelize
from paceline.parallel.agree import Answer, Kept, Question, agree
from paceline.parallel.describe import text_of
from paceline.parallel.job import PlanNote
from paceline.parallel.loader import PlannedLoader
from paceline.parallel.make import tell_idle
from paceline.parallel.plan import ParallelPlan
from paceline.parallel.store import Talk
from paceline.torch import ArgumentError, Checkpointer, ElasticDataset, ElasticLoader
from parallel_cases import Board, Case, digest_of
from torch import nn
from torch.nn.functional import mse_loss

from paceline import _native

PAIR = (torch.zeros(16, 8), torch.zeros(16, 4))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))


@pytest.fixture(autouse=True)
def planner() -> None:
    own_digest()  # before a test has a planner of its own


@cache
def own_digest() -> str:
    return digest_of(text_of(describe(model(), PAIR, mse_loss, optimizer=sgd)))


def plan_of(shares: list[int], **options: Any) -> dict[str, Any]:
    ranks = list(range(len(shares)))
    case = Case(name="", model="", stages=[(0, 3)], ranks=[ranks], shares=shares, **options)
    return case.plan(own_digest()) | {"unused": []}


def made(**options: Any) -> Any:
    usual = {"optimizer": sgd, "loss": mse_loss, "example": PAIR, "global_batch": 16,
             "plan": plan_of([16])}  # fmt: skip
    return parallelize(model(), **{**usual, **options})


# ---- data ----


def loaders(shares: list[int], **options: Any) -> list[PlannedLoader]:
    plan = ParallelPlan.parse(json.dumps(plan_of(shares)))
    return [PlannedLoader(ElasticDataset(range(100), seed=3), plan, replica, **options)
            for replica in range(len(shares))]  # fmt: skip


def test_shares_of_a_plan_are_the_steps_of_any_loader() -> None:
    steps = list(zip(*loaders([9, 6, 1]), strict=True))
    assert [[len(part) for part in step] for step in steps] == [[9, 6, 1]] * 6
    alone = ElasticLoader(ElasticDataset(range(100), seed=3), global_batch=16, drop_last=True)
    assert [torch.cat(step).tolist() for step in steps] == [step.tolist() for step in alone]
    assert all(len(one) == 6 and one.shares == [9, 6, 1] for one in loaders([9, 6, 1]))


def test_a_position_goes_on_under_another_plan() -> None:
    first, second = loaders([9, 7])[0], loaders([2, 14])
    read = iter(first)
    next(read), next(read)
    state = first.state_dict()
    for one in second:
        one.load_state_dict(state)
    rest = [torch.cat(step).tolist() for step in zip(*second, strict=True)]
    alone = ElasticLoader(ElasticDataset(range(100), seed=3), global_batch=16, drop_last=True)
    assert rest == [step.tolist() for step in alone][2:]


def test_a_job_trains_on_its_loader() -> None:
    job = made(clip=1.0, scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5))
    data = [(torch.randn(8), torch.randn(4)) for _ in range(40)]
    losses = [float(job.step(batch).loss) for batch in job.loader(data)]
    assert len(losses) == 2, "8 samples fill no step"
    assert job.scheduler.get_last_lr() == [0.025]
    assert 0 < job.evaluate(job.loader(data)) < 10
    assert list(job.state_dict()) == list(model().state_dict())


# ---- errors ----


def test_a_batch_that_is_no_share_is_refused() -> None:
    job = made()
    with pytest.raises(ArgumentError, match="16 samples, this rank's share") as caught:
        job.step((torch.zeros(5, 8), torch.zeros(5, 4)))
    assert "it has 5" in caught.value.why


@pytest.mark.parametrize(
    "wrong",
    [{"global_batch": 0}, {"precision": "fp8"}, {"clip": -1.0}, {"wishes": {"data": 2}},
     {"wishes": {"colour": [1]}}, {"checkpointer": "runs"}, {"example": torch.zeros(4, 8)}],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_are_refused_in_four_parts(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        made(**wrong)
    assert caught.value.fix and caught.value.why


@pytest.mark.parametrize(
    ("plan", "why"),
    [({"global_batch": 32}, "its global batch is 32")],
    ids=str,
)  # fmt: skip
def test_a_plan_of_another_job_is_refused(
    plan: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "check_plan", lambda *_: None)
    with pytest.raises(PlanError, match=why):
        made(plan=plan_of([16]) | plan)


def test_a_plan_for_more_ranks_says_how_many_there_are() -> None:
    with pytest.raises(PlanError) as caught:
        made(plan=plan_of([8, 8]))
    assert caught.value.where == "parallelize(plan=…)"
    assert caught.value.why == "it is for 2 ranks, and the world has 1"


def test_a_plan_of_a_flag_is_refused_with_the_flag() -> None:
    question = Question(text_of(describe(model(), PAIR, mse_loss, optimizer=sgd)),
                        {"global_batch": 16})  # fmt: skip
    with pytest.raises(PlanError) as caught:
        agree(Talk(0, 1, None), question, "cpu", given=json.dumps(plan_of([8, 8])), kept=None,
              measure=lambda _: None, flag="--plan four.json")  # fmt: skip
    assert caught.value.where == "--plan four.json"


def test_a_plan_that_is_given_does_not_speak_for_itself() -> None:
    """It may have been edited since its reason was written."""
    job = made(plan=plan_of([16]) | {"because": "its replicas are alike and take 8 samples each"})
    assert job.because == "the script gives it"


def test_a_plan_whose_ranks_cannot_share_layers_is_refused() -> None:
    shared = plan_of([16], tensor=2) | {"stages": [{"layers": [0, 3], "ranks": [0, 1]}]}
    with pytest.raises(PlanError, match="its ranks share layers, but Sequential has neither"):
        made(plan=shared)


def test_a_model_without_tensors_is_refused_before_anything_is_formed() -> None:
    with torch.device("meta"):
        empty = model()
    with pytest.raises(PlanError, match="meta device"):
        parallelize(empty, optimizer=sgd, loss=mse_loss, example=PAIR, global_batch=16)


def test_a_torch_without_a_call_is_refused_by_name() -> None:
    from paceline.parallel.execute.shard import must_have_calls

    with pytest.raises(PlanError, match=r"it has no FSDPModule\.set_new") as caught:
        must_have_calls(type("FSDPModule", (), {}), ("set_new",), "data 4 (shard)")
    assert "data 4 (shard)" in caught.value.what


@pytest.mark.parametrize("wishes", [{}, {"schedule": ["gpipe"]}, {"pipeline": [1]}], ids=str)
def test_one_process_gets_the_only_plan_that_there_is(wishes: dict[str, Any]) -> None:
    job = made(plan=None, cluster=cluster.without_numbers([["any", 1]]), wishes=wishes)
    assert (job.plan.shares, job.plan.schedule, len(job.plan.stages)) == ([16], "none", 1)
    assert job.because.startswith("it is chosen for these devices")


@pytest.mark.parametrize(
    ("unused", "told"),
    [([2], "rank 2 has nothing to do under the plan data 1: the test gives it"),
     (list(range(1, 20)), "ranks 1, 2, 3, 4, 5, 6, 7, 8, … (19 in all) have nothing to do"),
     ([], "")],
    ids=str,
)  # fmt: skip
def test_ranks_without_work_are_told_once(
    unused: list[int], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps(plan_of([16]) | {"unused": unused})
    answer = Answer(ParallelPlan.parse(text), Kept(text, "", []), "the script gives it")
    for rank in range(3):
        tell_idle(answer, rank)
    assert [one.getMessage()[: len(told)] for one in caplog.records] == ([told] if told else [])


# ---- checkpoints ----

HERE = cluster.without_numbers([["any", 1]])


@pytest.mark.usefixtures("own_keeper")
def test_a_checkpoint_without_a_plan_is_no_obstacle_and_one_with_it_gives_it(
    tmp_path: Path
) -> None:
    net = model()
    with Checkpointer(tmp_path / "runs") as ckpt:
        ckpt.save(3, {"model": net})
    with Checkpointer(tmp_path / "runs") as ckpt:
        job = made(plan=None, cluster=HERE, checkpointer=ckpt)
        assert job.because.startswith("it is chosen")
        assert ckpt.restore({"model": job.model}) == 4, "names are the undivided model's"
        job.step(PAIR)
        ckpt.save(4, job.state)
    with Checkpointer(tmp_path / "runs") as ckpt:
        again = made(plan=None, cluster=HERE, checkpointer=ckpt)
        assert again.because.startswith("the checkpoint has it")
        assert again.plan == job.plan
        assert ckpt.restore(again.state) == 5
        assert all(map(torch.equal, again.state_dict().values(), job.state_dict().values()))
        # Other wishes ask for another plan.
        other = made(plan=None, cluster=HERE, checkpointer=ckpt, wishes={"recompute": ["full"]})
        assert other.plan.recompute == "full" and other.because.startswith("it is chosen")


@pytest.mark.parametrize(
    "saved", [{}, {"plan": "{}"}, {"plan": "{}", "question": "", "devices": "["}], ids=str
)
def test_a_damaged_note_of_a_plan_is_none(saved: dict[str, str]) -> None:
    note = PlanNote(None)
    note.load_state_dict(saved)
    assert note.found is None and note.state_dict() == {}


# ---- memory ----


@pytest.mark.parametrize(
    "error",
    [torch.cuda.OutOfMemoryError("it"), MemoryError(), RuntimeError("DefaultCPUAllocator: it")],
)
def test_a_plan_that_ran_out_of_memory_is_named_and_not_chosen_again(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fails(*_: Any) -> Any:
        raise error

    tried: list[str] = []
    for _ in range(3):
        job = made(plan=None, cluster=HERE)
        tried.append(job.plan.text)
        needed = job.plan.memory[0]
        monkeypatch.setattr(job._executor, "step", fails)
        with pytest.raises(PlanError, match="rank 0 ran out of memory in its first step") as caught:
            job.step(PAIR)
        assert job.plan.told() in caught.value.where and caught.value.__cause__ is error
        assert f"{needed / (1 << 30):.3g} GiB" in caught.value.why
    assert len(set(tried)) == 3, "each needs less than the one before"
    # Another question is not concerned.
    assert made(plan=None, cluster=HERE, global_batch=8, example=PAIR).plan.micro_batches == 1


def test_a_later_step_and_another_error_are_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fails(kind: type[Exception]) -> Any:
        def step(*_: Any) -> Any:
            raise kind("it")

        return step

    job = made()
    first = made()
    monkeypatch.setattr(first._executor, "step", fails(RuntimeError))
    with pytest.raises(RuntimeError, match="it"):
        first.step(PAIR)
    job.step(PAIR)
    monkeypatch.setattr(job._executor, "step", fails(MemoryError))
    with pytest.raises(MemoryError):
        job.step(PAIR)
    assert not (tmp_path / "paceline/plans").exists()


def test_a_plan_of_a_checkpoint_that_ran_out_of_memory_is_not_taken(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = agreed([{}, {}])[0].kept
    other = Kept(json.dumps(plan_of([4, 12])), kept.question, kept.devices)
    plan = ParallelPlan.parse(other.plan)
    assert [one.plan.shares for one in agreed([{"kept": other}, {}])] == [[4, 12]] * 2
    memory.noted(plan, 1, kept.question, "cpu")
    chosen.clear()
    assert [one.plan.shares for one in agreed([{"kept": other}, {}])] == [[10, 6]] * 2
    (asked,) = chosen
    assert json.loads(asked)["types"][0]["memory"] == int(plan.memory[0] * 0.9)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"limits": {"cpu": "much"}}'], ids=str)
def test_a_damaged_note_of_memory_is_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    memory.noted(ParallelPlan.parse(json.dumps(plan_of([16]))), 0, "question", "cpu")
    (path,) = (tmp_path / "paceline/plans").iterdir()
    assert memory.limits("question") == {"cpu": int(0.9 * (1 << 20))}
    path.write_text(text)
    assert memory.limits("question") == {}


def test_a_host_s_smallest_limit_counts() -> None:
    assert memory.least([{"a": 3}, {}, {"a": 2, "b": 5}]) == {"a": 2, "b": 5}


# ---- agreement ----


def agreed(rows: list[dict[str, Any]]) -> list[Any]:
    """What `agree` gives each rank of a world of threads, an answer or an error."""
    board = Board()
    found: list[Any] = [None] * len(rows)

    def rank(number: int) -> None:
        row = {"summary": "{}", "device": "cpu", "given": None, "kept": None} | rows[number]
        question = Question(row["summary"], {"global_batch": 16})
        try:
            found[number] = agree(
                Talk(number, len(rows), board, "0"), question, row["device"],
                given=row["given"], kept=row["kept"],
                measure=lambda found: cluster.without_numbers(found) if number == 0 else None,
            )  # fmt: skip
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(len(rows))]
    for one in threads:
        one.start()
    for one in threads:
        one.join(240)
    return found


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clusters for which a planner was asked, which gives one plan for all."""
    asked: list[str] = []
    plan = json.dumps(plan_of([10, 6]))

    def choose(_summary: str, cluster: str, _wishes: str) -> str:
        asked.append(cluster)
        return plan

    monkeypatch.setattr(_native, "choose_plan", choose)
    monkeypatch.setattr(_native, "check_plan", lambda *_: None)
    return asked


def test_rank_0_chooses_and_all_get_the_same(chosen: list[str]) -> None:
    answers = agreed([{}, {}])
    assert [one.plan.shares for one in answers] == [[10, 6]] * 2
    assert len(chosen) == 1, "one rank asks once"
    assert answers[0].kept == answers[1].kept


def test_the_checkpoint_s_plan_is_taken_for_the_same_devices(chosen: list[str]) -> None:
    kept = agreed([{}, {}])[0].kept
    other = Kept(json.dumps(plan_of([4, 12])), kept.question, kept.devices)
    assert [one.plan.shares for one in agreed([{"kept": other}, {}])] == [[4, 12]] * 2
    assert len(chosen) == 1
    # The rank 0 of another world has another kind of device.
    answers = agreed([{"kept": other, "device": "H100"}, {}])
    assert [one.plan.shares for one in answers] == [[10, 6]] * 2
    assert answers[0].kept.devices == [["H100", 1], ["cpu", 1]]


def test_another_model_on_one_rank_is_refused_on_all(chosen: list[str]) -> None:
    errors = agreed([{}, {"summary": "[]"}])
    assert [(one.what, one.where) for one in errors] == [
        ("the ranks have different training problems", "rank 1")] * 2
    assert chosen == []


def test_ranks_with_different_plans_are_refused_on_all(chosen: list[str]) -> None:
    plans = [{"given": json.dumps(plan_of(shares))} for shares in ([10, 6], [6, 10], [10, 6])]
    errors = agreed(plans)
    assert [(one.what, one.where) for one in errors] == [
        ("the ranks hold different plans", "rank 1")] * 3


def test_a_planner_that_finds_nothing_is_an_error_on_all(
    chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*_: str) -> str:
        raise ValueError("nothing fits\nrank 3\n12 GiB are short\nmore")

    monkeypatch.setattr(_native, "choose_plan", choose)
    errors = agreed([{}, {}])
    assert [(one.what, one.where, one.why, one.fix) for one in errors] == [
        ("nothing fits", "rank 3", "12 GiB are short", "more")] * 2


def test_a_plan_that_one_rank_refuses_is_an_error_on_all(
    chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(plan: str, *_: str) -> None:
        if "9, 7" in plan.replace(",", ", "):
            raise ValueError("the plan is damaged")

    monkeypatch.setattr(_native, "check_plan", check)
    hostile = json.dumps(plan_of([9, 7]))
    errors = agreed([{"given": json.dumps(plan_of([10, 6]))}, {"given": hostile}])
    assert [type(one) for one in errors] == [PlanError] * 2
    assert {one.what for one in errors} == {"the plan is damaged"}
