"""The size of a job is measured while it trains, and changed where that costs no step."""

from __future__ import annotations

import pytest
from job import SCRIPTS, Job, JsonDict, eventually
from test_commands import checked

pytest.importorskip("torch", reason="the script trains with torch")

FOUR = ["--standalone", "--local-nodes", "4", "--nproc-per-node", "1", "--nnodes", "1:4"]


def start(job: Job, *flags: str, plain: bool = False) -> None:
    """A step takes 0.07, 0.05, 0.05 and 0.055 s with one to four ranks. Two are not twice as fast
    as one, so by efficiency_least one node is best."""
    job.be_patient().start(
        [*FOUR, *flags],
        [str(SCRIPTS / "sized.py"), "--checkpoint", str(job.directory / "ckpt"),
         "--out", str(job.directory), *(["--plain"] if plain else [])])


def scale(job: Job) -> JsonDict:
    """What `paceline scale` shows; while the job is just starting, that nothing is known."""
    asked = job.command("scale", "--json", "--job", str(job.run_dir))
    if asked.returncode != 0:
        return dict.fromkeys(("advice", "hindrance", "best", "nodes"), 0)
    return checked(asked.stdout)


def end_well(job: Job) -> None:
    (job.directory / "enough").touch()
    assert job.wait() == 0, job.stderr


def test_a_job_finds_its_size_and_the_next_run_begins_with_it(job: Job) -> None:
    place = job.directory / "history"
    job.env["PACELINE_HISTORY_PLACE"] = str(place)
    start(job, "--scale", "auto")
    chosen = job.until_event("size_chosen")[0]
    assert chosen["details"]["by_measurement"] == "true", chosen
    # Every size that it went to was measured there before the next change. It ends where a fourth
    # or third node is not worth it; on a busy machine it may be one node less.
    eventually(lambda: (shown := scale(job))["hindrance"] is None and shown["advice"]
               and shown["nodes"] == shown["best"] and shown["nodes"] <= 3,
               "the job has the best size", job=job)
    shown = scale(job)
    assert shown["by_measurement"] is True
    assert {point["nodes"] for point in shown["curve"]} >= {4, shown["nodes"]}
    assert shown["nodes"] < 4
    assert "efficiency_least" in shown["advice"]
    end_well(job)
    # The script asserts that each step was counted once in the weights.
    worlds = job.events("world_formed")
    assert len(worlds) >= 2
    assert not job.events("rank_failed")

    told = job.command("history", "--json")
    runs = checked(told.stdout)["runs"]
    assert [run["name"] for run in runs] == ["sized"], told.stdout
    assert {point["nodes"] for point in runs[0]["curve"]} >= {4, shown["nodes"]}

    again = Job(job.directory / "again", env={"PACELINE_HISTORY_PLACE": str(place)})
    start(again, "--scale", "auto")
    first = again.until_event("world_formed")[0]
    chosen = again.events("size_chosen")[0]
    assert chosen["seq"] < first["seq"], "the size was chosen before the first world"
    assert "earlier runs of this script measured" in chosen["sentence"], chosen
    assert scale(again)["nodes"] <= 3
    end_well(again)
    forgotten = again.command("history", "forget", "sized")
    assert forgotten.stdout == "forgot 2 runs\n" or forgotten.stdout == "forgot 1 run\n"
    assert "no run was measured yet" in again.command("history").stdout


def test_a_damaged_history_is_told_once_and_delays_nothing(job: Job) -> None:
    place = job.directory / "history"
    place.mkdir()
    (place / "history.db").write_bytes(b"x" * 8192)
    job.env["PACELINE_HISTORY_PLACE"] = str(place)
    start(job, "--scale", "auto")
    job.until_event("world_running")
    end_well(job)
    assert len(job.events("world_formed")) >= 1
    log = (job.run_dir / "logs" / "master.log").read_text()
    assert log.count("history_unusable") == 1, log
    shown = job.command("history")
    assert shown.returncode == 5, shown
    assert "PL-E250" in shown.stderr, shown.stderr


def test_advice_changes_nothing_and_a_plain_loader_is_told(job: Job) -> None:
    start(job, plain=True)
    eventually(lambda: scale(job)["advice"], "something is advised", job=job)
    shown = job.command("scale", "--job", str(job.run_dir))
    assert "s a step" in shown.stdout, shown.stdout
    assert "best: " in shown.stdout
    assert "ElasticLoader" in scale(job)["hindrance"]
    end_well(job)
    assert not job.events("size_chosen")
    assert len(job.events("world_formed")) == 1


@pytest.mark.parametrize("value", ["0", "1.5", "nan", "-1", "much"])
def test_an_efficiency_that_is_none_is_refused(job: Job, value: str) -> None:
    job.env["PACELINE_SCALE_EFFICIENCY_LEAST"] = value
    start(job)
    assert job.wait() == 2, job.stderr
    assert "EFFICIENCY_LEAST" in job.stderr, job.stderr


def test_auto_needs_growth(job: Job) -> None:
    start(job, "--scale", "auto", "--grow", "never")
    assert job.wait() == 2
    assert "--grow never" in job.stderr, job.stderr
    assert not job.run_dir.exists(), "nothing was started"
