"""A network file system: a real one for the kernel (FUSE), whose server a test stops and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job import SCRIPTS, eventually

needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounting needs root and FUSE")


class FarDisk:
    """What lies in `folder`, seen through the network at `path`."""

    def __init__(self, directory: Path):
        self.folder, self.path = directory / "server", directory / "far"
        self._count = directory / "far-reads"
        self.folder.mkdir()
        self.path.mkdir()
        self.serve()

    def serve(self) -> None:
        words = [str(SCRIPTS / "far_disk.py"), str(self.folder), str(self.path), str(self._count)]
        self.server = subprocess.Popen([sys.executable, *words])
        eventually(lambda: os.path.ismount(self.path) or None, "it is mounted")

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.server.send_signal(signal.SIGCONT)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """No more than about `size` bytes, in all, are read before the block ends."""
        hold = Path(f"{self._count}.hold")
        part = hold.with_suffix(".part")
        part.write_text(str(size))
        part.rename(hold)
        try:
            yield
        finally:
            hold.unlink()

    def bytes_read(self, pattern: str) -> int:
        """Of files whose path has that pattern in it, as the server counts them."""
        lines = self._count.read_text().splitlines() if self._count.exists() else []
        return sum(int(size) for size, path in (line.split(" ", 1) for line in lines)
                   if re.search(pattern, path))

    def end(self) -> None:
        self.server.kill()
        self.server.wait()
        subprocess.run(["umount", "-l", str(self.path)], check=False)
