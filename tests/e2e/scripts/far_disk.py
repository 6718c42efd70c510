"""A network file system as the kernel sees it (FUSE), whose server is this process.

    far_disk.py FOLDER MOUNTPOINT COUNT

It shows what lies in FOLDER, and writes a line into COUNT for each read: its size and the path.
As long as there is a file COUNT.hold, no more than about so many bytes are
read, since the beginning.
Stop the process (SIGSTOP) and nobody gets an answer until it goes on; end it, and everybody gets an
error.
"""

import os
import sys
import time
from pathlib import Path

import mfusepy


class FarDisk(mfusepy.Operations):
    use_ns = True

    def __init__(self, folder: str, count: str) -> None:
        self._folder = folder
        self._count = open(count, "a", buffering=1)  # noqa: SIM115, for as long as this process
        self._hold = Path(f"{count}.hold")
        self._bytes_read = 0

    def _limit(self) -> int:
        try:
            return int(self._hold.read_text())
        except FileNotFoundError:
            return sys.maxsize

    def _at(self, path: str) -> str:
        return self._folder + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.lstat(self._at(path))
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
        times = {f"st_{kind}time": getattr(found, f"st_{kind}time_ns") for kind in "amc"}
        return {name: getattr(found, name) for name in names} | times

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree",
                 "f_namemax")
        return {name: getattr(found, name) for name in names}

    def access(self, path: str, amode: int) -> int:
        return 0

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def open(self, path: str, flags: int) -> int:
        # The kernel asks for the bytes past the page cache; their buffers are not aligned here.
        return os.open(self._at(path), flags & ~os.O_DIRECT)

    def create(self, path: str, mode: int, fi: object = None) -> int:
        return os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        while self._bytes_read >= self._limit():
            time.sleep(0.02)
        data = os.pread(fh, size, offset)
        self._bytes_read += len(data)
        self._count.write(f"{len(data)} {path}\n")
        return data

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at(path) if fh is None else fh, length)
        return 0

    def flush(self, path: str, fh: int) -> int:
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        os.fsync(fh)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._at(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at(path))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at(old), self._at(new))
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(self._at(source), self._at(target))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at(path), mode)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._at(path), ns=times)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(FarDisk(sys.argv[1], sys.argv[3]), sys.argv[2], foreground=True, allow_other=True)
