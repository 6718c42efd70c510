"""Starts and stops, over and over: nothing may pile up. PACELINE_CYCLES=1000 for the long one."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from job import Job, eventually, runtime_dir

CYCLES = int(os.environ.get("PACELINE_CYCLES", "10"))
RESTARTS = 4 * CYCLES
RANK_FILE = re.compile(r"/g\d+/rank\d+\.(out|err)$")
# Fails after each new step, and at the end trains on until the test has looked.
FAILING = """
import os, sys, time
import paceline as pl
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
pl.step(restarts)
if restarts < {restarts}:
    sys.exit(1)
while not os.path.exists("seen"):
    time.sleep(0.05)
"""


def left_behind(runtime: Path) -> dict[str, int]:
    """What a leak would make grow, over the whole machine."""
    return {
        "shared memory": sum(1 for _ in Path("/dev/shm").iterdir()),
        "job sockets": len(list(runtime.glob("starters/*/sock"))),
        "temporary files": len(list(Path("/tmp").glob("paceline-*"))),
    }


def test_cycles_leave_nothing(tmp_path: Path) -> None:
    runtime = runtime_dir(tmp_path)
    script = tmp_path / "trivial.py"
    script.write_text("import paceline as pl\npl.step(0)\n")
    jobs: list[Job] = []
    before: dict[str, int] = {}
    for cycle in range(CYCLES):
        job = Job(tmp_path, f"run{cycle}", is_alone=True)
        job.start(["--standalone", "--nproc-per-node", "2"], [str(script)])
        assert job.wait() == 0, job.stderr
        jobs.append(job)
        if cycle == 0:
            before = left_behind(runtime)
    eventually(lambda: not any(job.leftovers() for job in jobs) or None, "no process stays")
    after = left_behind(runtime)
    assert all(after[what] <= before[what] for what in before), (before, after)


def descriptors(pid: int) -> list[str]:
    """What each descriptor of a process stands for."""
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found.append(os.readlink(entry.path))
    return found


def open_files(job: Job) -> dict[str, int]:
    """Descriptors of each process of the control plane."""
    pids = {"launcher": job.card["launcher"]["pid"], "master": job.card["master"]["pid"],
            "agent": job.agent_pid("node0")}
    pids["starter"] = next(starter for starter in (
        int(Path(f"/proc/{rank['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1])
        for rank in job.ranks().values()))
    # Sockets of commands that asked a moment ago come and go; what leaks stays.
    looks = []
    for _ in range(20):
        seen = {what: descriptors(pid) for what, pid in pids.items()}
        # The launcher follows the files of the last two worlds. How many there are depends on how
        # far a world got before its first rank failed, and on when the launcher heard of them.
        files = {name for name in seen["launcher"] if RANK_FILE.search(name)}
        assert len({os.path.dirname(name) for name in files}) <= 2, files
        seen["launcher"] = [name for name in seen["launcher"] if name not in files]
        looks.append({what: len(names) for what, names in seen.items()})
        time.sleep(0.05)
    return {what: min(look[what] for look in looks) for what in pids}


def run_until_quiet(job: Job, restarts: int) -> dict[str, int]:
    script = job.directory / f"failing{restarts}.py"
    script.write_text(FAILING.format(restarts=restarts))
    job.start(["--standalone", "--nproc-per-node", "2"], [str(script)])
    eventually(lambda: job.step() == restarts or None, f"{restarts} restarts", job=job)
    files = open_files(job)
    (job.directory / "seen").touch()
    assert job.wait() == 0, job.stderr
    (job.directory / "seen").unlink()
    return files


def test_restarts_leave_nothing_open(tmp_path: Path) -> None:
    few = run_until_quiet(Job(tmp_path, "few", is_alone=True), 2)
    many = run_until_quiet(Job(tmp_path, "many", is_alone=True), RESTARTS)
    assert {what: many[what] - few[what] for what in few} == dict.fromkeys(few, 0)
