"""Any layout into any other, bit for bit: rows, columns, replicas and meshes of 2x2, and worlds of
other sizes; tensors by themselves, and models with their optimizers."""

from __future__ import annotations

import pytest
from job import SCRIPTS, Job

pytest.importorskip("torch", reason="the layouts are torch's")


def run(one: Job, ranks: int, verb: str, folder: str) -> None:
    one.be_patient().start(["--standalone", "--nproc-per-node", str(ranks)],
                           [str(SCRIPTS / "layouts.py"), verb, folder])
    assert one.wait() == 0, one.stderr


# Layouts of tensors, then kinds of models, in a world of that size.
COUNTS = {4: (8, 4), 2: (3, 3), 3: (3, 3)}


@pytest.mark.parametrize("saved", [4, 3])
def test_any_layout_goes_into_any_other(job: Job, make_job, saved: int) -> None:
    run(job, saved, "save", str(job.directory))
    verified = job.command("ckpt", "verify", str(job.directory / "ckpt"))
    assert verified.returncode == 0, verified.stdout
    for ranks in (4, 2, 3):
        run(make_job(f"load{ranks}"), ranks, "load", str(job.directory))
        pairs = sum(a * b for a, b in zip(COUNTS[saved], COUNTS[ranks], strict=True))
        for rank in range(ranks):
            assert (job.directory / f"loaded-{ranks}-{rank}").read_text() == str(pairs)
