"""Wall clocks that are set while a job runs. Row 45 of checkpoint-faults.md has the saves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from false_clock import YEAR, FalseClock, needs_compiler
from job import Job


@needs_compiler
def test_a_clock_that_was_set_back_stops_no_timer(job: Job, tmp_path: Path) -> None:
    """Connections of the time before are given up, and new ones are made, as fast as ever."""
    clock = FalseClock(tmp_path)
    clock.set(3 * YEAR)
    job.env = {**job.env, **clock.env}
    job.be_patient().start_steps(["--standalone", "--local-nodes", "2", "--nproc-per-node", "1"],
                                 "--hold", "40", steps=60)
    ranks = job.until_stepping(2, beyond=20)
    clock.set(0)
    os.kill(job.card["master"]["pid"], signal.SIGKILL)
    job.until_event("master_took_over", 2)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.until_event("world_running", 2)
    job.let_go()
    assert job.wait() == 0, job.stderr
    assert "Done after 2 worlds" in job.stderr
