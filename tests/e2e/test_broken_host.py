"""A host that can start no process is taken out of the job, and the others go on without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
from job import Job, eventually, free_port

MakeJob = Callable[[str], Job]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="hiding an interpreter from one of two nodes needs root and unshare")

# Waits for a file, and ends well.
PROGRAM = """#!{interpreters}/sh
while [ ! -e {end} ]; do sleep 0.1; done
"""


def test_a_host_that_cannot_start_its_ranks_is_taken_out(make_job: MakeJob) -> None:
    sound, broken = make_job("sound"), make_job("broken")
    interpreters, end = sound.directory / "interpreters", sound.directory / "end"
    interpreters.mkdir()
    shutil.copy("/bin/sh", interpreters / "sh")
    program = sound.directory / "program"
    program.write_text(PROGRAM.format(interpreters=interpreters, end=end))
    program.chmod(0o755)
    flags = ["--nnodes", "1:2", "--nproc-per-node", "1", "--no-python",
             "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    sound.start([*flags, "--node-name", "sound", "--rdzv-conf", "is_host=1"], [str(program)])
    eventually(sound.status, "its master answers", job=sound)
    hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {interpreters} && exec "$@"', "sh"]
    broken.start([*flags, "--node-name", "broken", "--rdzv-conf", "is_host=0"], [str(program)],
                 prefix=hide)
    assert broken.wait() == 92, broken.stderr
    assert "could not start its worker processes 3 times" in broken.stderr, broken.stderr
    assert "interpreters/sh" in broken.stderr or "No such file" in broken.stderr, broken.stderr
    eventually(lambda: len(sound.ranks()) == 1, "the other host goes on", job=sound)
    why = broken.command("why", "--job", str(broken.run_dir))
    assert "next: fix what failed on broken, then start it there again" in why.stderr, why
    end.touch()
    assert sound.wait() == 0, sound.stderr
    assert [event["node"] for event in sound.events("node_evicted")] == ["broken"]
