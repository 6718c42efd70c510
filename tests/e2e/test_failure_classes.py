"""The class of a failure: what broke is named and mended, not what followed from it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from job import Job, eventually, lives

THREE = ["--standalone", "--nproc-per-node", "3", "--no-python"]
# Ranks 1 and 2 lose their connection when the file `reset` is there, and rank 0 is out of memory
# when `oom` is there. In the next world all end well.
RANKS = """
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
dir=$1
echo $$ > "$dir/rank$RANK.new" && mv "$dir/rank$RANK.new" "$dir/rank$RANK"
wait_for() { until [ -e "$dir/$1" ]; do sleep 0.02; done; }
if [ "$RANK" = 0 ]; then
  wait_for oom
  echo "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2
  echo "bye" >&2
  exit 1
fi
wait_for reset
echo "RuntimeError: [pair.cc:534] Connection reset by peer" >&2
exit 1
"""


def pid_of(file: Path) -> int | None:
    return int(file.read_text()) if file.exists() else None


def test_a_rank_out_of_memory_is_named_though_others_died_before(job: Job) -> None:
    script = job.directory / "ranks.sh"  # `$$` in an argument would be a `$`, as under torchrun
    script.write_text(RANKS)
    job.be_patient().start(THREE, ["/bin/sh", str(script), str(job.directory)])
    files = [job.directory / f"rank{rank}" for rank in range(3)]
    pids = [eventually(lambda file=file: pid_of(file), f"{file.name} runs") for file in files]
    # The agent hears of all three deaths at once. Otherwise it ends rank 0 after the first one.
    agent = job.agent_pid("node0")
    os.kill(agent, signal.SIGSTOP)
    try:
        (job.directory / "reset").touch()
        eventually(lambda: not any(map(lives, pids[1:])) or None, "ranks 1 and 2 have ended")
        (job.directory / "oom").touch()
        eventually(lambda: not lives(pids[0]) or None, "rank 0 has ended")
    finally:
        os.kill(agent, signal.SIGCONT)
    assert job.wait() == 0, job.stderr
    failed = {event["rank"]: event["details"] for event in job.events("rank_failed")}
    assert (failed[0]["class"], failed[0]["role"]) == ("cuda_oom", "cause")
    assert {failed[rank]["role"] for rank in failed if rank != 0} <= {"cascade"}
    decided = job.events("recovery_decided")[-1]["seq"]
    ask = ["why", str(decided), "--job", str(job.run_dir)]
    why = json.loads(job.command(*ask, "--json").stdout)
    assert why["class"]["name"] == "cuda_oom"
    assert "batch size" in why["class"]["advice"]
    told = job.command(*ask).stdout
    assert told.startswith("rank 0 on node0 exited with code 1"), told
    assert "class: cuda_oom (cause): lower the batch size" in told, told


RULE = """[[rule]]
class = "license_away"
role = "cause"
rung = "R0"
pattern = 'FlexLM error -\\d+'
advice = "start the license server again"
example = "FlexLM error -15: cannot connect to the license server"
"""


def test_a_class_of_the_users_own_rules_is_named_with_its_advice(job: Job) -> None:
    rules = job.directory / "site.toml"
    rules.write_text(RULE)
    job.env["PACELINE_LOG_RULES"] = "site.toml"
    script = job.directory / "unlicensed.sh"
    script.write_text("echo 'FlexLM error -96: no answer' >&2; exit 3\n")
    flags = ["--standalone", "--max-restarts", "0", "--no-python"]
    job.be_patient().start(flags, ["/bin/sh", str(script)])
    assert job.wait() == 1, job.stderr
    rules.unlink()  # the event has the advice, so the file is needed no more
    failed = job.events("rank_failed")[0]["details"]
    assert (failed["class"], failed["role"]) == ("license_away", "cause")
    why = job.command("why").stdout
    assert "class: license_away (cause): start the license server again" in why


@pytest.mark.parametrize(("text", "code", "where"), [
    (RULE.replace(r"FlexLM error -\d+", ".*"), "PL-E017", "site.toml:1"),
    (RULE.replace(r"FlexLM error -\d+", "(unclosed"), "PL-E017", "site.toml:1"),
    (RULE + RULE, "PL-E017", "site.toml:8"),
    (None, "PL-E239", "site.toml"),
])
def test_rules_that_cannot_be_used_are_refused_with_their_line(
    job: Job, text: str | None, code: str, where: str
) -> None:
    if text is not None:
        (job.directory / "site.toml").write_text(text)
    job.env["PACELINE_LOG_RULES"] = "site.toml"
    job.start(["--standalone", "--no-python"], ["/bin/true"])
    assert job.wait() == 2, job.stderr
    assert code in job.stderr
    assert where in job.stderr
