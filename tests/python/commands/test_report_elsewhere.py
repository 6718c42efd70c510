"""`paceline report --on`: the page is made in the master's pod and written where the user is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import DEADLINE_S, find_binary

# What kubectl answers of a running job. `exec` prints the words that it was given.
KUBECTL = """#!/bin/sh
case "$*" in
  *elasticjob*) echo '{"status": {"state": "Running", "masterTerm": 2}}' ;;
  *"get pod"*) printf Running ;;
  *can-i*) echo yes ;;
  *exec*) [ -z "$FAILS" ] || { echo "no journal" >&2; exit 3; }
          while [ "$1" != "--" ]; do shift; done; echo "$*" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "kubectl"
    tool.write_text(KUBECTL)
    tool.chmod(0o755)
    return tmp_path


def report(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [find_binary(), "report", "--on", "kubernetes/team/train", *words],
        cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        env=os.environ | path | more)


@pytest.mark.parametrize(("words", "name"), [
    ((), "job.html"), (("-o", "a.html"), "a.html"), (("--out=a.html",), "a.html"),
    (("--json", "-o", "a.json"), "a.json")])
def test_the_file_is_written_here(folder: Path, words: tuple[str, ...], name: str) -> None:
    done = report(folder, *words)
    assert done.returncode == 0, done
    assert done.stderr.startswith(f"wrote {name} (1 KiB)"), done
    asked = (folder / name).read_text().split()
    assert asked[:3] == ["--", "paceline", "report"], asked
    # The last flag counts, so the pod writes no file.
    assert asked[-4:] == ["--job", "/tmp/paceline/run", "--out", "-"], asked


def test_data_goes_to_standard_output(folder: Path) -> None:
    for words in (("--json",), ("-o", "-"), ("--output", "json")):
        done = report(folder, *words)
        assert done.returncode == 0 and done.stdout.startswith("-- paceline report"), done
    assert [entry.name for entry in folder.iterdir()] == ["bin"]


def test_an_error_in_the_pod_is_told_and_no_file_is_written(folder: Path) -> None:
    done = report(folder, "-o", "a.html", FAILS="1")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "no journal\n"), done
    assert not (folder / "a.html").exists()


def test_a_file_that_cannot_be_written_is_an_error(folder: Path) -> None:
    done = report(folder, "-o", "nosuch/a.html", "--json")
    assert done.returncode != 0, done
    assert json.loads(done.stdout)["code"] == "PL-E016", done
