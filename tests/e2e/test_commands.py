"""Every command that talks about a job, on a job that runs and on the same job when it is over."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job import DEADLINE_S, ROOT, Job, eventually
from jsonschema import Draft202012Validator

pytestmark = pytest.mark.alone

SCHEMAS = ROOT / "docs" / "schemas"
TWO = ["--standalone", "--nproc-per-node", "2"]


def closed(schema: Any) -> Any:
    """The schema with every field named: for readers more may come, for us it must be written."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(value) for key, value in schema.items()}
    if "required" in parts and "properties" in parts:
        parts["additionalProperties"] = False
    return parts


def checked(text: str) -> dict[str, Any]:
    told = json.loads(text)
    name = told["schema"].removeprefix("paceline.").removesuffix("/1")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(closed(schema)).validate(told)
    return told


def ask(job: Job, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = job.command(*words, "--json", "--job", str(job.run_dir))
    assert done.returncode == code, done
    return [checked(line) for line in objects(done.stdout)]


def objects(text: str) -> list[str]:
    """`status` is one object over many lines, everything else is one a line."""
    return [text] if text.startswith("{\n") else text.splitlines()


@pytest.fixture
def failed_once(make_job: Callable[..., Job]) -> Job:
    """Runs in its second world: rank 1 raised at step 5 of the first."""
    job = make_job()
    job.be_patient().start_steps(TWO, "--fail", "1:5:raise", "--print", steps=100_000)
    job.until_stepping(2, beyond=8)
    # Its first world may have ended before rank 0 told of a step. Then it never counted as running.
    eventually(lambda: any(event["generation"] == 2 for event in job.events("world_running")),
               "its second world runs")
    # A rank tells of a step before it prints it, and of each world only the last lines are asked.
    eventually(lambda: ask(job, "logs", "--rank", "0"), "rank 0 prints in its second world")
    return job


def test_every_schema_in_the_sources_has_a_file() -> None:
    named = set()
    for folder in ("cli", "wire", "master"):
        for source in (ROOT / "src" / "paceline" / folder).rglob("*.cc"):
            if not source.name.endswith("_test.cc"):
                text = source.read_text()
                named |= set(re.findall(r'"schema"\]? ?[=,] ?"paceline\.(\w+)/1"', text))
    # The texts of the planner.
    for source in (ROOT / "src" / "paceline" / "plan").glob("*_json.cc"):
        named |= set(re.findall(r'Schema = "paceline\.(\w+)/1"', source.read_text()))
    # Those of commands that Python carries out.
    convert = ROOT / "python" / "paceline" / "integrations" / "convert.py"
    named |= set(re.findall(r'"paceline\.(ckpt_\w+)/1"', convert.read_text()))
    # Files of the run directory, described in docs/formats.
    assert named - {"job", "spec"} == {path.stem for path in SCHEMAS.glob("*.json")}


def test_a_job_that_runs_tells_all(failed_once: Job) -> None:
    job = failed_once
    (status,) = ask(job, "status")
    assert status["job"]["phase"] == "running"
    assert status["master"]["pid"] == job.card["master"]["pid"]
    assert [rank["rank"] for rank in status["nodes"][0]["ranks"]] == [0, 1]
    failures = ask(job, "events", "--kind", "rank_failed")
    assert [failure["rank"] for failure in failures][:1] == [1]
    (why,) = ask(job, "why")
    assert "ValueError: bad batch" in why["traceback"]
    assert failures[0]["seq"] in [event["seq"] for event in why["evidence"]]
    assert why["outcome"][-1]["kind"] == "world_running"
    (same,) = ask(job, "why", str(why["seq"]))
    assert same["sentence"] == why["sentence"]
    lines = ask(job, "logs", "--rank", "0", "-n", "3")
    assert lines and {line["generation"] for line in lines} == {status["world"]["generation"]}
    traceback = ask(job, "logs", "--rank", "1", "--generation", "1", "--errors")
    assert "ValueError: bad batch" in traceback[-1]["text"]
    (goodput,) = ask(job, "goodput")
    assert not goodput["is_over"] and 0 < goodput["runtime"] < 1
    assert [cost["event"] for cost in goodput["incidents"]] == [failures[0]["seq"]]
    assert goodput["rank_seconds"]["infrastructure_recovery"] > 0
    (page,) = ask(job, "report")
    assert (page["state"], page["is_live"]) == ("running", True)
    assert [one["cause"] for one in page["incidents"]] == [failures[0]["seq"]]
    assert "ValueError: bad batch" in page["incidents"][0]["text"]
    kept = job.directory / "job.json"
    assert ask(job, "report", "-o", str(kept)) == []
    assert checked(kept.read_text())["state"] == "running"
    (listed,) = ask_host(job, "ps")
    assert [one["running"] for one in listed["jobs"]] == [True]
    (problem,) = ask(job, "wait", "--for", "step=1000000", "--timeout", "300ms", code=124)
    assert problem["code"] == "PL-E070"
    assert ask(job, "wait", "--for", "running") == []
    (kept,) = ask_clean(job, code=5)
    assert kept["removed"] == [] and kept["kept"]


def test_logs_of_an_ended_job_name_what_is_not_there(job: Job) -> None:
    job.be_patient().start_steps(TWO, "--print", steps=3)
    assert job.wait() == 0, job.stderr
    for words, what in ((["--rank", "99"], "there is no rank 99"),
                        (["--node", "nosuch"], "there is no node nosuch"),
                        (["--generation", "7"], "there is no generation 7")):
        done = job.command("logs", "--job", str(job.run_dir), *words)
        assert done.returncode == 2 and what in done.stderr, done
        assert "nodes node0; ranks 0, 1; generations 1" in done.stderr, done
    assert job.command("logs", "--job", str(job.run_dir), "--rank", "1").stdout


def test_checkpoint_commands_say_what_is_missing(job: Job) -> None:
    for verb in ("ls", "show", "verify"):
        done = job.command("ckpt", verb, str(job.directory / "nosuch"))
        assert done.returncode == 2 and "there is no such directory" in done.stderr, done


def ask_host(job: Job, *words: str) -> list[dict[str, Any]]:
    done = job.command(*words, "--json")
    assert done.returncode == 0, done
    return [checked(line) for line in objects(done.stdout)]


def ask_clean(job: Job, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = job.command("clean", *words, "--json", str(job.run_dir))
    assert done.returncode == code, done
    return [checked(line) for line in objects(done.stdout)]


def test_a_job_that_is_over_tells_the_same(failed_once: Job) -> None:
    job = failed_once
    live = ask(job, "events")
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0
    assert job.command("wait", "--job", str(job.run_dir)).returncode == 143
    assert job.wait() == 143
    (status,) = ask(job, "status")
    assert (status["job"]["phase"], status["job"]["exit_code"]) == ("finished", 143)
    (goodput,) = ask(job, "goodput")
    assert goodput["is_over"] and goodput["runtime"] == pytest.approx(status["job"]["goodput"])
    assert ask(job, "goodput") == [goodput]
    events = ask(job, "events", "--follow")
    assert events[: len(live)] == live
    assert events[-1]["kind"] == "job_finished"
    (why,) = ask(job, "why")
    assert "paceline stop" in why["sentence"]
    assert ask(job, "logs", "--follow", "--rank", "0")
    assert job.command("stop", "--job", str(job.run_dir)).returncode == 0
    eventually(lambda: not job.leftovers(), "all processes of the job are gone")
    mine = job.run_dir / "weights.pt"
    mine.write_text("a script's own file")
    (planned,) = ask_clean(job, "--dry-run")
    assert (job.run_dir / "journal.db").exists()
    (done,) = ask_clean(job, code=5)
    assert [item["kind"] for item in planned["removed"]] == ["run directory", "registry entry"]
    assert [path.name for path in job.run_dir.iterdir()] == ["weights.pt"]
    assert [item["path"] for item in done["kept"]] == [str(job.run_dir)]


def test_following_ends_with_the_job(make_job: Callable[..., Job]) -> None:
    job = make_job().start_steps(TWO, "--print", "--hold", "140", steps=150)
    job.until_stepping(2)
    paths = {verb: job.directory / f"{verb}.followed" for verb in ("events", "logs")}
    commands = [follow(job, verb, path) for verb, path in paths.items()]
    eventually(lambda: all(path.stat().st_size > 0 for path in paths.values()), "both follow")
    job.let_go()
    assert job.wait() == 0
    assert [command.wait(DEADLINE_S) for command in commands] == [0, 0]
    said = {verb: path.read_text() for verb, path in paths.items()}
    assert checked(said["events"].splitlines()[-1])["kind"] == "job_finished"
    none = job.command("ckpt", "ls", str(job.run_dir))
    assert none.returncode == 2, none.stderr
    assert "this job has no checkpoint in storage yet" in none.stderr, none.stderr
    texts = [checked(line)["text"] for line in said["logs"].splitlines()]
    assert any("149" in text for text in texts), texts[-3:]


def follow(job: Job, verb: str, path: Path) -> subprocess.Popen[bytes]:
    words = [verb, "--follow", "--json", "--job", str(job.run_dir)]
    with path.open("wb") as out:
        return subprocess.Popen(job.command_line(*words), env=job.env, stdout=out)


def test_other_commands_on_a_host_without_jobs(make_job: Callable[..., Job]) -> None:
    job = make_job()
    for words in (["ps"], ["clean", "--dry-run"], ["version"], ["config", "show"],
                  ["why", "PL-E012"]):
        ask_host(job, *words)
    for words, code in ((["status"], 3), (["events", "--kind", "nothing"], 2),
                        (["wait", "--timeout", "1ms"], 3), (["trace"], 2),
                        (["trace", "--last", "0s"], 2), (["scale", "--nodes", "9" * 20], 2)):
        done = job.command(*words, "--json")
        assert (done.returncode, checked(done.stdout)["schema"]) == (code, "paceline.error/1")
    doctor = job.command("doctor", "--json")
    assert doctor.returncode in (0, 5)
    checked(doctor.stdout)


def test_a_registry_entry_without_a_job_is_cleaned(make_job: Callable[..., Job],
                                                   tmp_path: Path) -> None:
    job = make_job()
    runtime = Path(job.env["PACELINE_RUNTIME_DIR"])
    jobs = runtime / "jobs"
    jobs.mkdir(parents=True)
    runtime.chmod(0o700)
    (jobs / "gone.json").write_text(json.dumps({"run_dir": str(tmp_path / "nowhere")}))
    (told,) = ask_host(job, "clean")
    # What other jobs left in memory is the host's, and not this folder's.
    here = [item["kind"] for item in told["removed"] if str(runtime) in item["path"]]
    assert here == ["registry entry"]
    assert list(jobs.iterdir()) == []


def test_events_since_and_clean_older_than_look_at_the_time(make_job: Callable[..., Job]) -> None:
    job = make_job().start_steps(TWO, steps=5)
    assert job.wait() == 0, job.stderr
    everything = ask(job, "events")
    assert ask(job, "events", "--since", "1h") == everything
    eventually(lambda: not job.leftovers(), "all processes of the job are gone")
    eventually(lambda: not ask(job, "events", "--since", "10ms"), "its last event is old enough")
    # The shards on this user's disk are other tests' as well.
    job.env = {**job.env, "XDG_STATE_HOME": str(job.directory / "user-state")}
    (told,) = ask_host(job, "clean", "--older-than", "1h")
    assert "run directory" not in [item["kind"] for item in told["removed"]]
    assert job.run_dir.exists()
    refused = job.command("clean", "--older-than", "0s")
    assert refused.returncode == 2
    assert "PL-E018" in refused.stderr and "--yes" in refused.stderr
    assert f"would remove run directory {job.run_dir}" in refused.stderr
    assert job.run_dir.exists()
    (told,) = ask_host(job, "clean", "--older-than", "10ms", "--yes")
    assert str(job.run_dir) in [item["path"] for item in told["removed"]]
    assert not job.run_dir.exists()


def test_ranks_lines_that_stdout_does_not_take_are_told_once(job: Job) -> None:
    job.stdout_path = Path("/dev/full")
    job.be_patient().start_steps(TWO, "--print", steps=5)
    assert job.wait() == 0
    assert job.stderr.count("lines of the ranks cannot be shown here: No space left") == 1
    assert "step 4" in (job.run_dir / "logs/node0/g1/rank1.out").read_text()
