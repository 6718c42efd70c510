"""How many bytes a restore into another layout reads, for each byte that it needs.

    .venv/bin/python -m bench.checkpoint.reshard                      on one host
    .venv/bin/python -m bench.checkpoint.reshard --hosts --rounds 3   a rank a host

A job saves six tensors of 64 MiB by rows, with 2 and with 4 ranks. Then the ranks of another world
restore their parts.

On one host they do so one after the other in this process, as each would for itself. *Asked* is
what their readers took in, by whole chunks of 4 MiB since chunks are what is verified; *read* is
what the kernel fetched from the disk for them (/proc/self/io), with the files dropped from its
cache before: ranks of one host share what one of them has read.

With --hosts each rank has an agent of its own, in a failure domain of its own, so that they take
each other for hosts; it is one machine, its loopback and its page cache, so the times say what the
way costs and nothing about a network. *Read* is what all ranks read of files (rchar of
/proc/self/io, which does not count sockets) and what all agents read of storage for them. In turns:
hosts that share the reading, the same ones with each rank reading by itself, as it was (they say
that they are one host), and torch's DCP.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import BENCH, free_port, machine

ROWS, COLUMNS, TENSORS = 4096, 4096, 6
PAIRS = [(2, 2, "rows"), (4, 2, "rows"), (2, 8, "rows"), (4, 4, "columns"), (4, 4, "both")]


def values(number: int) -> Any:
    import torch

    seed = torch.Generator().manual_seed(number)
    return torch.rand(ROWS, COLUMNS, generator=seed)


def state_of(layout: str, *, is_filled: bool) -> dict[str, Any]:
    """The tensors as this rank has them in that layout."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    size = dist.get_world_size()
    shape = (2, size // 2) if layout == "both" else (size,)
    cut = {"rows": [Shard(0)], "columns": [Shard(1)], "both": [Shard(0), Shard(1)]}[layout]
    mesh = init_device_mesh("cpu", shape)
    empty = torch.zeros(ROWS, COLUMNS)
    return {f"layer{i}": distribute_tensor(values(i) if is_filled else empty, mesh, cut)
            for i in range(TENSORS)}


def save_worker(folder: str) -> None:
    import paceline.torch as pl
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

    dist.init_process_group("gloo")
    state = state_of("rows", is_filled=True)
    with pl.Checkpointer(folder) as ckpt:
        ckpt.save(0, {"weights": state})
    dcp_save({"weights": state}, checkpoint_id=f"{folder}-dcp")
    dist.destroy_process_group()


def restore_worker(folder: str, layout: str, out: str, kind: str) -> None:
    """Restores, says how long that took and what it read of files, and compares."""
    import paceline.torch as pl
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.state_dict_loader import load as dcp_load

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    state = {"weights": state_of(layout, is_filled=False)}
    dist.barrier()
    read, began = file_bytes(), time.monotonic()
    ckpt = None if kind == "dcp" else pl.Checkpointer(folder, every=1)
    if ckpt is None:
        dcp_load(state, checkpoint_id=f"{folder}-dcp")
    else:
        assert ckpt.restore(state) == 1
    took, read = time.monotonic() - began, file_bytes() - read
    shape, offset = box_of(layout, size, rank)
    rows = slice(offset[0], offset[0] + shape[0])
    columns = slice(offset[1], offset[1] + shape[1])
    for number in range(TENSORS):
        mine = state["weights"][f"layer{number}"].to_local()
        assert torch.equal(mine, values(number)[rows, columns]), number
    if ckpt is not None:
        # Once all have saved, agents say what they have read for others.
        ckpt.save(1, {"done": torch.ones(1)})
        ckpt.close()
    Path(f"{out}-{rank}").write_text(json.dumps({"read": read, "s": took}))
    dist.destroy_process_group()


def file_bytes() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar")))


def paceline(*words: str) -> list[str]:
    return [str(Path(sys.executable).parent / "paceline"), "run", "-q", "--max-restarts", "0",
            *words]


def save(ranks: int, folder: Path) -> None:
    command = paceline("--standalone", "--run-dir", f"{folder}-run", "--nproc-per-node", str(ranks),
                       __file__, "save", str(folder))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"saving with {ranks} ranks failed:\n{done.stdout}{done.stderr}")


def restore_over_hosts(folder: Path, ranks: int, layout: str, kind: str) -> dict[str, float]:
    """One launcher a rank, which all take for hosts unless they are in one failure domain."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-", dir=folder.parent) as place:
        copy = Path(place) / "ckpt"  # the job saves one more step
        subprocess.run(["cp", "-al", str(folder), str(copy)], check=True)
        os.symlink(f"{folder}-dcp", f"{copy}-dcp")
        out = f"{place}/out"
        script = [__file__, "restore", str(copy), layout, out, kind]
        port = str(free_port())
        jobs = []
        for number in range(ranks):
            jobs.append(start_host(Path(place), number, kind, port, str(ranks), script))
            while not (Path(place) / "run0" / "token").exists():  # the others need it
                time.sleep(0.01)
        if any(job.wait() != 0 for job in jobs):
            raise SystemExit("".join(path.read_text() for path in Path(place).glob("*.err")))
        found = [json.loads(Path(f"{out}-{rank}").read_text()) for rank in range(ranks)]
        logs = "".join(path.read_text() for path in Path(place).glob("run*/logs/*/agent.log"))
    for_others = sum(int(read) for read in re.findall(r"storage_shared read_bytes=(\d+)", logs))
    return {"read": sum(one["read"] for one in found) + for_others,
            "s": max(one["s"] for one in found)}


def start_host(
    place: Path, number: int, kind: str, port: str, nodes: str, script: Sequence[str]
) -> subprocess.Popen[bytes]:
    domain = f"host{number}" if kind == "shared" else "one"
    other = ["--rdzv-conf", "is_host=0", "--token-file", str(place / "run0" / "token")]
    command = paceline("--node-name", f"host{number}", "--nproc-per-node", "1", "--nnodes", nodes,
                       "--rdzv-endpoint", f"127.0.0.1:{port}", *(other if number else []),
                       "--run-dir", str(place / f"run{number}"), *script)
    with (place / f"{number}.err").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log,
                                env={**os.environ, "PACELINE_FAILURE_DOMAIN": domain})


def over_hosts(place: Path, needed: int, rounds: int) -> None:
    raw = BENCH / "raw" / "checkpoint_reshard.jsonl"
    samples: dict[tuple[Any, ...], list[dict[str, float]]] = {}
    for turn in range(rounds):
        kinds = ["shared", "alone", "dcp"]
        for saved, ranks, layout in PAIRS[1:]:
            for kind in kinds[turn % 3:] + kinds[:turn % 3]:
                one = restore_over_hosts(place / str(saved), ranks, layout, kind)
                samples.setdefault((saved, ranks, layout, kind), []).append(one)
                with raw.open("a") as file:
                    row = {"saved": saved, "ranks": ranks, "layout": layout, "kind": kind,
                           "read": one["read"] / needed, "s": one["s"], "machine": machine()}
                    file.write(json.dumps(row) + "\n")
    for (saved, ranks, layout, kind), taken in samples.items():
        reads = sorted(one["read"] / needed for one in taken)
        seconds = statistics.median(one["s"] for one in taken)
        print(f"{saved} ranks by rows → {ranks} hosts by {layout}, {kind}: "
              f"read {reads[0]:.2f} to {reads[-1]:.2f}, {seconds:.2f} s", flush=True)


def box_of(layout: str, ranks: int, rank: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shape and offset of a rank's part."""
    down, across = {"rows": (ranks, 1), "columns": (1, ranks), "both": (2, ranks // 2)}[layout]
    shape = (ROWS // down, COLUMNS // across)
    return shape, (rank // across * shape[0], rank % across * shape[1])


def fetched() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def restore(folder: str, ranks: int, rank: int, layout: str) -> int:
    """What this rank's readers took in; its tensors are compared with what was saved."""
    import torch
    from paceline._restore.images import Images
    from paceline._restore.restoring import Restoring
    from paceline._state.save_plan import Box
    from paceline.torch import Torch

    shape, offset = box_of(layout, ranks, rank)

    class Cut(Torch):
        """Each tensor is this rank's part of a larger one."""

        def box(self, key: str, tensor: object) -> Box:
            return Box("F32", shape, offset, (ROWS, COLUMNS))

    images = Images.stored(folder, rank)
    work = Restoring(Cut(), images, strict=True, size=ranks)
    tensors = [torch.empty(shape) for _ in range(TENSORS)]
    for number, tensor in enumerate(tensors):
        work.want(f"weights.layer{number}", tensor)
    work.check(folder)
    work.copy()
    rows = slice(offset[0], offset[0] + shape[0])
    columns = slice(offset[1], offset[1] + shape[1])
    for number, tensor in enumerate(tensors):
        assert torch.equal(tensor, values(number)[rows, columns]), number
    return images.bytes_read


def on_one_host(place: Path, needed: int) -> None:
    from paceline._restore.fetching import find

    for saved, ranks, layout in PAIRS:
        folder = find(place / str(saved))
        for path in Path(folder).glob("*"):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = fetched()
        asked = sum(restore(folder, ranks, rank, layout) for rank in range(ranks))
        read = fetched() - before
        told = f"read {read / needed:.2f}, asked {asked / needed:.2f}"
        print(f"{saved} ranks by rows → {ranks} by {layout}: {told}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description="Bytes read for each byte needed.")
    options.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    options.add_argument("--hosts", action="store_true", help="each rank has a host of its own")
    options.add_argument("--rounds", type=int, default=3)
    args = options.parse_args()
    if args.words[:1] == ["save"]:
        save_worker(args.words[1])
        return
    if args.words[:1] == ["restore"]:
        restore_worker(*args.words[1:])
        return
    print(machine(), file=sys.stderr)
    needed = ROWS * COLUMNS * 4 * TENSORS
    with tempfile.TemporaryDirectory(prefix="paceline-bench-", dir=BENCH.parent) as place:
        for ranks in (2, 4):
            save(ranks, Path(place) / str(ranks))
        if args.hosts:
            over_hosts(Path(place), needed, args.rounds)
        else:
            on_one_host(Path(place), needed)


if __name__ == "__main__":
    main()
