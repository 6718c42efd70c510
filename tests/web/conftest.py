"""Pages in Debian's chromium. Only `make test-web` runs them: it sets PACELINE_WEB_TESTS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_job import DEADLINE_S, Live, eventually
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from command import find_binary

collect_ignore_glob = [] if os.environ.get("PACELINE_WEB_TESTS") == "1" else ["test_*.py"]

SCRIPT = """
import os, sys
print("<img src=x onerror=alert(1)> \\x1b[31mlast words", file=sys.stderr)
raise ValueError("bad batch <b>\\u202e") if os.environ["RANK"] == "1" else SystemExit(0)
"""


def run_paceline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    return subprocess.run([find_binary(), *words], cwd=folder, capture_output=True, text=True,
                          env=os.environ | {"PACELINE_RUNTIME_DIR": str(runtime)}, check=False)


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real job whose script fails at each start."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "train.py").write_text(SCRIPT)
    ran = run_paceline(folder, "run", "--nproc-per-node", "2", "train.py")
    assert ran.returncode != 0, ran
    done = run_paceline(folder, "report", "-o", "job.html")
    assert done.returncode == 0, done
    return folder / "job.html"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.fail("there is no chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        # Tests may run as root, which the sandbox refuses.
        made = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    # pytest's own folders are too long for a socket's path.
    with tempfile.TemporaryDirectory(prefix="pl-web-") as runtime:
        made = Live(tmp_path, runtime)
        try:
            eventually(lambda: made.rank_pid(1), "the job trains")
            yield made
        finally:
            made.command("stop", "--force")
            made.launcher.wait(DEADLINE_S)
