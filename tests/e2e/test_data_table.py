"""A table of data sets and samplers under kills and in worlds of 1, 3 and 2 ranks.

Each row is exact, or refused by name before a sample is lost. The comparison is with a plain list:
every number below COUNT, once an epoch, with its own bytes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from job import SCRIPTS, Job

pytest.importorskip("torch")
pytest.importorskip("numpy")

COUNT, STEPS_AN_EPOCH = 60, 5


def start(job: Job, ranks: int, until: int, checkpoint: Path, rows: str = "exact",
          *flags: str, hold: int = -1) -> Job:
    script = [str(SCRIPTS / "table.py"), "--checkpoint", str(checkpoint), "--out", str(job.state),
              "--until", str(until), "--rows", rows, "--hold", str(hold)]
    return job.start(["--standalone", "--nproc-per-node", str(ranks), *flags], script)


def test_every_row_is_exact_over_kills_and_worlds(job: Job, make_job) -> None:
    checkpoint = job.directory / "ckpt"
    jobs = [job, make_job("three"), make_job("two")]
    begin = 0
    for one, ranks, until in zip(jobs, (1, 3, 2), (7, 13, 4 * STEPS_AN_EPOCH), strict=True):
        start(one.be_patient(), ranks, until, checkpoint, hold=until - 1)
        known = one.until_stepping(ranks, beyond=begin + 2)
        os.kill(known[ranks - 1]["pid"], signal.SIGKILL)
        one.let_go()
        assert one.wait() == 0, one.stderr
        assert "Done after 2 worlds and 1 failure of ranks" in one.stderr, one.stderr
        begin = until
    counts = json.loads((jobs[-1].state / "counts.json").read_text())
    assert len(counts) >= 12
    wrong = {row: found for row, found in counts.items() if found != [4] * COUNT + [0]}
    assert not wrong, "samples lost, repeated, or with other samples' bytes"


REFUSED = {
    "unseeded": "ranks read this data in different orders",
    "seed by rank": "ranks read this data in different orders",
    "distributed": "yields the samples of one rank",
    "split by node": "ranks read different streams",
    "shuffled by pid": "ranks read different streams",
}


@pytest.mark.parametrize("row", REFUSED)
def test_rows_that_ranks_cannot_share_are_refused(job: Job, row: str) -> None:
    start(job, 2, 1000, job.directory / "ckpt", row, "--max-restarts", "0")
    assert job.wait() != 0
    assert REFUSED[row] in job.stderr


@pytest.mark.parametrize("row", ["hidden", "shuffled by pid"])
def test_rows_that_a_restart_changes_are_refused(job: Job, make_job, row: str) -> None:
    start(job.be_patient(), 1, 3, job.directory / "ckpt", row)
    assert job.wait() == 0, job.stderr
    again = make_job("again")
    start(again, 1, 6, job.directory / "ckpt", row, "--max-restarts", "0")
    assert again.wait() != 0
    assert ("another order of epoch 0" in again.stderr
            or "the stream changed since the checkpoint" in again.stderr), again.stderr


@pytest.mark.parametrize("row", ["unseeded", "split by node"])
def test_torchrun_ranks_compare_in_their_store(tmp_path: Path, row: str) -> None:
    torchrun = Path(sys.executable).parent / "torchrun"
    script = [str(SCRIPTS / "table.py"), "--checkpoint", str(tmp_path / "ckpt"), "--out",
              str(tmp_path), "--until", "1000", "--rows", row]
    ran = subprocess.run([str(torchrun), "--standalone", "--nproc-per-node", "2", *script],
                         capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode != 0
    assert REFUSED[row] in ran.stderr
