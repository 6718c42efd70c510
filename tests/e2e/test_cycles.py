"""Starts and stops, over and over: nothing may pile up. PACELINE_CYCLES=1000 for the long one."""

from __future__ import annotations

import os
from pathlib import Path

from job import Job, eventually, processes_of

CYCLES = int(os.environ.get("PACELINE_CYCLES", "10"))


def left_behind(runtime: Path) -> dict[str, int]:
    """What a leak would make grow, over the whole machine."""
    return {
        "shared memory": sum(1 for _ in Path("/dev/shm").iterdir()),
        "job sockets": len(list(runtime.glob("starters/*/sock"))),
        "temporary files": len(list(Path("/tmp").glob("paceline-*"))),
    }


def test_cycles_leave_nothing(tmp_path: Path) -> None:
    runtime = tmp_path / "rt"
    script = tmp_path / "trivial.py"
    script.write_text("import paceline as pl\npl.step(0)\n")
    ids: list[str] = []
    before: dict[str, int] = {}
    for cycle in range(CYCLES):
        job = Job(tmp_path, f"run{cycle}")
        job.start(["--standalone", "--nproc-per-node", "2"], [str(script)])
        assert job.wait() == 0, job.stderr
        ids.append(job.card["id"])
        if cycle == 0:
            before = left_behind(runtime)
    eventually(lambda: not any(processes_of(job_id) for job_id in ids) or None, "no process stays")
    after = left_behind(runtime)
    assert all(after[what] <= before[what] for what in before), (before, after)
