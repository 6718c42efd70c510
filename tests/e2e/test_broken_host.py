"""A host whose ranks get to no step is taken out of the job, and the others go on without it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from free_ports import free_port
from job import Job, eventually

MakeJob = Callable[[str], Job]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="hiding a folder from one of two nodes needs root and unshare")

# Each waits for a file, and ends well. The first one needs an interpreter, the second one data.
PROGRAM = """#!{folder}/sh
while [ ! -e {end} ]; do sleep 0.1; done
"""
SCRIPT = """
import os, time
open("{folder}/data").close()
while not os.path.exists("{end}"):
    time.sleep(0.1)
"""


def start_on_two_hosts(
        sound: Job, broken: Job, folder: Path, words: list[str], *flags: str) -> None:
    """The second host joins when the first one's master answers. It has nothing in `folder`."""
    shared = ["--nnodes", "1:2", "--nproc-per-node", "1", *flags,
              "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    # A second host that comes late would be a spare of a world that does not grow.
    sound.env |= {"PACELINE_TIMERS_JOIN_WINDOW": "60s"}
    sound.be_patient().start([*shared, "--node-name", "sound", "--rdzv-conf", "is_host=1"], words)
    eventually(sound.status, "its master answers", job=sound)
    hide = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"', "sh"]
    broken.start([*shared, "--node-name", "broken", "--rdzv-conf", "is_host=0"], words,
                 prefix=hide)


def check_the_other_goes_on(sound: Job, broken: Job, end: Path) -> None:
    eventually(lambda: len(sound.ranks()) == 1, "the other host goes on", job=sound)
    why = broken.command("why", "--job", str(broken.run_dir))
    assert "next: fix what failed on broken, then start it there again" in why.stderr, why
    end.touch()
    assert sound.wait() == 0, sound.stderr
    assert [event["node"] for event in sound.events("node_evicted")] == ["broken"]


def test_a_host_that_cannot_start_its_ranks_is_taken_out(make_job: MakeJob) -> None:
    sound, broken = make_job("sound"), make_job("broken")
    folder, end = sound.directory / "interpreters", sound.directory / "end"
    folder.mkdir()
    shutil.copy("/bin/sh", folder / "sh")
    program = sound.directory / "program"
    program.write_text(PROGRAM.format(folder=folder, end=end))
    program.chmod(0o755)
    start_on_two_hosts(sound, broken, folder, [str(program)], "--no-python")
    assert broken.wait() == 92, broken.stderr
    assert "could not start its worker processes 3 times" in broken.stderr, broken.stderr
    assert "interpreters/sh" in broken.stderr or "No such file" in broken.stderr, broken.stderr
    check_the_other_goes_on(sound, broken, end)


def test_a_host_that_lacks_what_the_script_needs_is_taken_out(make_job: MakeJob) -> None:
    sound, broken = make_job("sound"), make_job("broken")
    folder, end = sound.directory / "mount", sound.directory / "end"
    folder.mkdir()
    (folder / "data").touch()
    script = sound.directory / "train.py"
    script.write_text(SCRIPT.format(folder=folder, end=end))
    start_on_two_hosts(sound, broken, folder, [str(script)])
    assert broken.wait() == 92, broken.stderr
    assert "failed 3 times before its first step: FileNotFoundError" in broken.stderr, broken.stderr
    check_the_other_goes_on(sound, broken, end)
