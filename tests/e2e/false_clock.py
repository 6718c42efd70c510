"""A wall clock that a test sets, for all processes of a job."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

YEAR = 366 * 24 * 3600
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* Every wall clock of the process is off by as many seconds as a file says. */
static int64_t offset(void) {
  static volatile int64_t *seconds;
  if (!seconds) {
    const int fd = open(getenv("WRONG_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (page == MAP_FAILED) return 0;
    seconds = page;
  }
  return *seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
  const int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += offset();
  return status;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="the false clock is a small C library"
)


class FalseClock:
    """Processes with `env` see the time of the host and as many seconds as were set."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "clock.c", folder / "clock.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.offset = folder / "offset"
        self.offset.write_bytes(bytes(4096))
        self.env = {"LD_PRELOAD": str(library), "WRONG_CLOCK": str(self.offset)}
        before = self.seen()
        self.set(3 * YEAR)
        assert self.seen() > before + 2 * YEAR, "the false clock is believed"
        self.set(0)

    def seen(self) -> int:
        done = subprocess.run([sys.executable, "-c", "import time; print(int(time.time()))"],
                              env={**os.environ, **self.env}, capture_output=True, text=True,
                              check=True)
        return int(done.stdout)

    def set(self, seconds: int) -> None:
        with self.offset.open("r+b") as file:
            file.write(struct.pack("<q", seconds))
