"""A disk that answers nobody: ext4 on a loop device, frozen by the kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_disk = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"),
    reason="mounting and freezing a disk need root, mkfs.ext4 and fsfreeze")

DISK_BYTES = 64 << 20


class Disk:
    """A small ext4 of its own at `path`."""

    def __init__(self, directory: Path):
        self._image, self.path = directory / "disk.img", directory / "disk"
        self.path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        self.mount()
        self.is_frozen = False

    def mount(self) -> None:
        done = subprocess.run(["mount", "-o", "loop", str(self._image), str(self.path)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"NO LOOP DEVICE HERE: {done.stderr.strip()}")

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=False)

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "-f", str(self.path)], check=True)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen:
            subprocess.run(["fsfreeze", "-u", str(self.path)], check=True)
        self.is_frozen = False


@contextmanager
def frozen(disk: Disk) -> Iterator[None]:
    disk.freeze()
    try:
        yield
    finally:
        disk.thaw()
