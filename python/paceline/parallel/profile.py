"""`paceline profile`: what the devices of this machine and the links between them reach.

    python -m paceline.parallel.profile --processes 2 -- train.py --lr 0.1

All processes measure at the same time, as ranks train. The numbers are kept for the next world;
`--json` prints them as a cluster that `paceline plan --cluster FILE` takes.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from paceline._base.launch import cache_dir
from paceline.errors import PacelineError
from paceline.parallel.errors import PlanError
from paceline.parallel.profile_run import PROFILE, RESULT

_PROCESSES_MAX = 64
_END_SECONDS = 10.0  # that the others get after one has failed


def main(words: list[str]) -> int:
    """Measures, and prints what was found; the exit status."""
    parser = argparse.ArgumentParser(prog="paceline profile")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("script", nargs=argparse.REMAINDER)
    asked = parser.parse_args(words)
    script = asked.script[1:] if asked.script[:1] == ["--"] else asked.script
    try:
        found = measure(_count(asked.processes), script)
    except PacelineError as error:
        print(f"error[PL-E121]: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found["cluster"]) if asked.json else table(found))
    return 0


def measure(processes: int, script: list[str]) -> dict[str, Any]:
    """Return what that many processes measure together. Raise PlanError if one of them fails."""
    with tempfile.TemporaryDirectory(prefix="paceline-profile-") as folder, _kept_port() as kept:
        port = kept.getsockname()[1]
        ranks = [_start(rank, processes, script, folder, port) for rank in range(processes)]
        failed = _wait(ranks)
        result = Path(folder, RESULT)
        if failed or not result.exists():
            words = _last_words(folder, failed[0] if failed else 0)
            raise PlanError(
                what="this machine cannot be measured",
                where=words["where"] or (script[0] if script else "paceline profile"),
                why=words["why"],
                fix=words["fix"] or "mend what it says, or paceline profile without a script",
            )
        return json.loads(result.read_text(encoding="utf-8"))


def table(found: dict[str, Any]) -> str:
    """The numbers for people, with where they are kept."""
    cluster = found["cluster"]
    lines: list[str] = []
    counts = {kind["name"]: 0 for kind in cluster["types"]}
    for group in cluster["groups"]:
        counts[group["type"]] += group["count"]
    what = f"the block {found['block']}" if found["block"] else "products of matrices"
    for kind in cluster["types"]:
        lines += [
            f"{kind['name']}, {counts[kind['name']]} at the same time",
            f"  arithmetic  {_rate(kind['flops'], 'FLOP/s')} ({what})",
            f"  memory      {_rate(kind['bandwidth'], 'B/s')}, "
            f"{kind['memory'] / (1 << 30):.1f} GiB a rank",
            f"  launch      {kind['launch'] * 1e6:.1f} µs",
        ]
    lines += [
        f"  {one['precision']} {one['size']}³".ljust(14) + _rate(one["flops"], "FLOP/s")
        for one in found["products"]
    ]
    if sum(counts.values()) > 1:
        link = cluster["inner"]
        text = f"{link['seconds'] * 1e6:.1f} µs, {_rate(link['bandwidth'], 'B/s')}"
        lines.append(f"link        {text}")
    return "\n".join([*lines, f"kept in     {cache_dir() / 'probe'}"])


def _rate(number: float, unit: str) -> str:
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g} {name}{unit}"
    return f"{number:.3g} {unit}"


def _count(asked: int | None) -> int:
    if asked is None:
        import torch

        return torch.cuda.device_count() or 2
    if not 1 <= asked <= _PROCESSES_MAX:
        raise PlanError(
            what=f"{asked} processes cannot measure",
            where="--processes",
            why=f"it is a number from 1 to {_PROCESSES_MAX}",
            fix="--processes 2",
        )
    return asked


def _start(
    rank: int, count: int, script: list[str], folder: str, port: int
) -> "subprocess.Popen[bytes]":
    """One of the processes. Its words go to a file of the folder."""
    launcher = ("PET_", "PACELINE_", "TORCHELASTIC_", "MASTER_", "GROUP_", "ROLE_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(launcher)}
    environment |= {
        PROFILE: folder, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    if count > 1:  # as `paceline run` and torchrun start their ranks
        environment.setdefault("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-m", "paceline.parallel.profile_run", *script]
    with open(os.path.join(folder, f"{rank}.words"), "wb") as words:
        return subprocess.Popen(command, env=environment, stdout=words, stderr=words)


def _kept_port() -> socket.socket:
    """A socket that keeps a port for the store of rank 0, which listens on it seconds later.

    The store may bind the port because both reuse addresses and this socket does not listen. The
    kernel gives the port to no other process meanwhile.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept


def _wait(ranks: list["subprocess.Popen[bytes]"]) -> list[int]:
    """Wait for all ranks and return those that failed first.

    `_END_SECONDS` after the first failure the others are killed. Those are not returned.
    """
    failed: list[int] = []
    deadline = float("inf")
    while any(rank.poll() is None for rank in ranks):
        failed = failed or [n for n, rank in enumerate(ranks) if rank.poll() not in (None, 0)]
        if failed:
            deadline = min(deadline, time.monotonic() + _END_SECONDS)
        if time.monotonic() > deadline:
            for rank in ranks:
                rank.kill()
        time.sleep(0.02)
    return failed or [n for n, rank in enumerate(ranks) if rank.returncode != 0]


def _last_words(folder: str, rank: int) -> dict[str, str]:
    """Three parts of the error that ended the process; of another end only `why`: its last line."""
    text = Path(folder, f"{rank}.words").read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    parts: dict[str, str] = {"where": "", "why": "", "fix": ""}
    for line in lines:
        name, _, words = line.partition(" ")
        if name in parts:
            parts[name] = words.strip()
    return parts if parts["why"] else parts | {"why": (lines or ["it says nothing"])[-1]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
