"""A full disk drops what a rank prints, and does not end the rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import DEADLINE_S
from paceline._rank.output import RoomyFile

PRINTS = """
import os, sys
from paceline._rank import output

output.outlive_a_full_disk()
sys.stdout.reconfigure(line_buffering=True)
print("nobody reads this")
print("nor this", file=sys.stderr)
place = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.dup2(place, 1)
print("there is room again")
"""


@pytest.mark.parametrize("options", [[], ["-u"]])
def test_print_goes_on_when_there_is_no_room(tmp_path: Path, options: list[str]) -> None:
    later = tmp_path / "later"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, *options, "-c", PRINTS, str(later)], stdout=full,
                              stderr=full, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0
    note, line = later.read_text().splitlines()
    assert "18 bytes were dropped: the disk was full" in note
    assert line == "there is room again"


def test_other_errors_are_raised() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    file = RoomyFile(writer)
    with pytest.raises(BrokenPipeError):
        file.write(b"x")
    os.close(writer)
