"""Starts and stops, over and over: nothing may pile up. PACELINE_CYCLES=1000 for the long one."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from job import GRACE_S, Job, eventually, runtime_dir
from paceline._base.processes import parent_of

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


# Has a place in memory that is made, found again and given back, and tells of it while it is there.
SAVING = """
import os, pathlib
import numpy
import paceline.numpy as pl
state = {"weights": numpy.zeros(1000)}
with pl.Checkpointer("storage") as checkpointer:
    step = checkpointer.restore(state)
    checkpointer.save(step, state)
    arenas = pathlib.Path(f"/dev/shm/paceline-{os.geteuid()}").glob("*/*/*.arena")
    pathlib.Path(f"arenas{pl.rank()}").write_text("\\n".join(map(str, arenas)))
"""


def left_behind(temporary: Path, runtime: Path, job: Job) -> list[str]:
    """What a leak of this job would leave on the machine. Other tests run beside this one, so what
    lies where everybody puts something is a job's by its name."""
    shared = [Path(place, f"paceline-{os.geteuid()}") for place in ("/dev/shm", "/var/tmp")]
    everywhere = [path for place in (*shared, Path("/dev/shm")) if place.is_dir()
                  for path in place.iterdir() if str(job.card["id"]) in path.name]
    own = [path for path in temporary.iterdir() if path != runtime]
    return [str(path) for path in (*everywhere, *own, *runtime.glob("starters/*/sock"))]


def test_cycles_leave_nothing(tmp_path: Path) -> None:
    runtime = runtime_dir(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = tmp_path / "saving.py"
    script.write_text(SAVING)
    jobs: list[Job] = []
    for cycle in range(CYCLES):
        job = Job(tmp_path, f"run{cycle}", {"TMPDIR": str(temporary)}, is_alone=True)
        job.be_patient().start(["--standalone", "--nproc-per-node", "2"], [str(script)])
        assert job.wait() == 0, job.stderr
        # The test looks where there is something to be seen.
        assert str(job.card["id"]) in (tmp_path / "arenas0").read_text()
        jobs.append(job)
    eventually(lambda: not any(job.leftovers() for job in jobs) or None, "no process stays")
    assert [left_behind(temporary, runtime, job) for job in jobs] == [[] for _ in jobs]


def descriptors(pid: int) -> list[str]:
    """What each descriptor of a process stands for."""
    found = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found.append(os.readlink(entry.path))
    return found


def open_files(job: Job, enough: Mapping[str, int] | None = None) -> dict[str, list[str]]:
    """Descriptors of each process of the control plane, at the moment when it had fewest: within a
    second, or until each has had no more than `enough`."""
    pids = {"launcher": job.card["launcher"]["pid"], "master": job.card["master"]["pid"],
            "agent": job.agent_pid("node0")}
    pids["starter"] = parent_of(job.until_stepping(2)[0]["pid"])
    # Sockets of commands that asked a moment ago come and go, late if their process waits for its
    # turn; what leaks stays.
    fewest: dict[str, list[str]] = {}
    begin, worlds, is_done = time.monotonic(), set[str](), False
    while not is_done and time.monotonic() < begin + GRACE_S:
        seen = {what: descriptors(pid) for what, pid in pids.items()}
        # The launcher follows the files of the last two worlds. How many there are depends on how
        # far a world got before its first rank failed, and on when the launcher heard of them.
        files = {name for name in seen["launcher"] if RANK_FILE.search(name)}
        worlds = {os.path.dirname(name) for name in files}
        seen["launcher"] = [name for name in seen["launcher"] if name not in files]
        fewest = {what: min(fewest.get(what, names), names, key=len)
                  for what, names in seen.items()}
        is_enough = (time.monotonic() > begin + 1 if enough is None
                     else all(len(names) <= enough[what] for what, names in fewest.items()))
        # A look in the middle of a change of worlds sees three of them.
        is_done = is_enough and len(worlds) <= 2
        time.sleep(0.05)
    assert len(worlds) <= 2, worlds
    return fewest


def run_until_quiet(job: Job, restarts: int,
                    enough: Mapping[str, int] | None = None) -> dict[str, list[str]]:
    script = job.directory / f"failing{restarts}.py"
    script.write_text(FAILING.format(restarts=restarts))
    job.be_patient().start(["--standalone", "--nproc-per-node", "2"], [str(script)])
    eventually(lambda: job.step() == restarts or None, f"{restarts} restarts", job=job)
    # The launcher knows the last world, too.
    eventually(lambda: f" trains, at step {restarts}\n" in job.stderr,
               "the launcher tells of the last world", job=job)
    files = open_files(job, enough)
    (job.directory / "seen").touch()
    assert job.wait() == 0, job.stderr
    (job.directory / "seen").unlink()
    return files


def test_restarts_leave_nothing_open(tmp_path: Path) -> None:
    few = run_until_quiet(Job(tmp_path, "few", is_alone=True), 2)
    enough = {what: len(names) for what, names in few.items()}
    many = run_until_quiet(Job(tmp_path, "many", is_alone=True), RESTARTS, enough)
    # What a restart leaves open is there forty times. Fewer are no leak: what ends by itself, such
    # as a starter that was replaced, may still be open after the few.
    piled_up = {what: len(many[what]) - len(few[what]) for what in few}
    assert all(count <= 0 for count in piled_up.values()), (
        f"{piled_up}\nafter few restarts {few}\nafter many {many}")
