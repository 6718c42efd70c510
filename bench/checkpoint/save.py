"""What a save costs the training, what its persistence costs the machine: engine against peers.

    ninja -C build/release bench_checkpoint
    .venv/bin/python -m bench.checkpoint.save --rounds 5 --peer VENV/bin/python

Ours is twice here: the engine alone (save_engine.cc: arena, fused copy and hash, drain,
verified restore, in a C++ process), and the Checkpointer as a user has it, with Python. Peers are
torch.save, DCP save and DCP async_save of the same number of bytes and tensors, each in a process
of its own (save_peer.py), and with `--peer`, an interpreter that has them, DLRover's
DdpCheckpointer (to memory alone), torchsnapshot's and orbax's asynchronous saves. Systems
alternate; the first save of each process is told apart. Each stall is divided by the copy limit of
its own process: streaming stores for the engine, torch's copy_ of warm tensors for the others.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import BENCH, Samples, machine

BUILD = BENCH.parent / "build" / "release" / "bench"
PEERS = ("paceline", "torch_save", "dcp_save", "dcp_async_save")
OTHERS = ("dlrover", "torchsnapshot", "orbax")  # of another interpreter


def lines_of(command: list[str]) -> list[dict[str, Any]]:
    """Some peers tell their users more than our lines."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]


def median(rows: list[dict[str, Any]], what: str, key: str = "seconds") -> float:
    return statistics.median(row[key] for row in rows if row["what"] == what and row["round"] > 0)


def keep(samples: Samples, system: str, tensors: int, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        rest = {key: value for key, value in row.items() if key not in ("what", "seconds")}
        samples.add(f"{system} {row['what']}", row["seconds"], tensors=tensors, **rest)


def measure(
    samples: Samples, disk: Path, size: int, tensors: int, rounds: int, other: str
) -> list[str]:
    """All systems once, for one shape of state; the lines that are printed."""
    numbers = [str(size), str(tensors), str(rounds + 1)]
    arena = Path(tempfile.mkdtemp(prefix="paceline-bench-", dir="/dev/shm"))
    ours = lines_of([str(BUILD / "bench_checkpoint"), str(arena), str(disk), *numbers])
    shutil.rmtree(arena)
    keep(samples, "engine", tensors, ours)
    limit = median(ours, "streaming_copy")
    first = next(row["seconds"] for row in ours if row["what"] == "save")
    save, fixed = median(ours, "save"), median(ours, "fixed")
    gib = size / 2**30
    text = [
        f"save {save / limit:.2f} of the copy limit (first {first / save:.2f} of a steady one)",
        f"fixed {fixed * 1e3:.2f} ms for {tensors} tensors",
        f"restore {median(ours, 'restore') / median(ours, 'memcpy'):.2f} of memcpy",
        f"drain {median(ours, 'raw_direct') / median(ours, 'drain'):.2f} of raw speed, "
        f"{median(ours, 'drain', 'cpu') / gib:.3f} CPU-s/GiB with and "
        f"{median(ours, 'raw_direct', 'cpu') / gib:.3f} without re-hash",
    ]
    systems = [(sys.executable, peer) for peer in PEERS]
    systems += [(other, peer) for peer in OTHERS if other]
    for python, peer in systems:
        command = [python, str(Path(__file__).with_name("save_peer.py")), peer, str(disk), *numbers]
        rows = lines_of(command)
        keep(samples, peer, tensors, rows)
        text.append(f"{peer} {median(rows, peer) / median(rows, 'memcpy'):.1f} of its copy limit")
    return text


def main() -> None:
    options = argparse.ArgumentParser(description="Saves: engine against torch.save and DCP.")
    options.add_argument("--rounds", type=int, default=5, help="after the first of each process")
    options.add_argument("--bytes", type=int, default=2**30)
    options.add_argument("--tensors", default="1,20000", help="shapes of state: numbers of tensors")
    options.add_argument("--peer", default="", help="an interpreter that has the other peers")
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint")
    disk = Path(tempfile.mkdtemp(prefix="paceline-bench-", dir=BENCH.parent))
    lines: list[str] = []
    for tensors in map(int, args.tensors.split(",")):
        text = measure(samples, disk, args.bytes, tensors, args.rounds, args.peer)
        lines.append(f"{tensors} tensors: " + ", ".join(text))
    shutil.rmtree(disk)
    print("checkpoint: " + " | ".join(lines))


if __name__ == "__main__":
    main()
