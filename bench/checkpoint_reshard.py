"""How many bytes a restore into another layout reads, for each byte that it needs.

    .venv/bin/python bench/checkpoint_reshard.py

A job saves six tensors of 64 MiB by rows, with 2 and with 4 ranks. Then the ranks of another world
restore their parts, one after the other in this process, as each would for itself. *Asked* is what
their readers took in, by whole chunks of 4 MiB since chunks are what is verified; *read* is what
the kernel fetched from the disk for them (/proc/self/io), with the files dropped from its cache
before: ranks of one host share what one of them has read.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import BENCH, machine

ROWS, COLUMNS, TENSORS = 4096, 4096, 6
PAIRS = [(2, 2, "rows"), (4, 2, "rows"), (2, 8, "rows"), (4, 4, "columns"), (4, 4, "both")]


def values(number: int) -> Any:
    import torch

    seed = torch.Generator().manual_seed(number)
    return torch.rand(ROWS, COLUMNS, generator=seed)


def worker(folder: str) -> None:
    import paceline.torch as pl
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    cut = {f"layer{i}": distribute_tensor(values(i), mesh, [Shard(0)]) for i in range(TENSORS)}
    with pl.Checkpointer(folder) as ckpt:
        ckpt.save(0, {"weights": cut})
    dist.destroy_process_group()


def save(ranks: int, folder: Path) -> None:
    command = [str(Path(sys.executable).parent / "paceline"), "run", "-q", "--standalone",
               "--max-restarts", "0", "--run-dir", f"{folder}-run", "--nproc-per-node", str(ranks),
               __file__, "worker", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"saving with {ranks} ranks failed:\n{done.stdout}{done.stderr}")


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
    from paceline.images import Images
    from paceline.plan import Box, Leaf
    from paceline.restoring import Restoring
    from paceline.torch import Torch

    images = Images.stored(folder, rank)
    work = Restoring(Torch(), images, strict=True, size=ranks)
    shape, offset = box_of(layout, ranks, rank)
    tensors = [torch.empty(shape) for _ in range(TENSORS)]
    for number, tensor in enumerate(tensors):
        box = Box("F32", shape, offset, (ROWS, COLUMNS))
        work.want(Leaf(f"weights.layer{number}", box, tensor))
    work.check(folder)
    work.copy()
    rows = slice(offset[0], offset[0] + shape[0])
    columns = slice(offset[1], offset[1] + shape[1])
    for number, tensor in enumerate(tensors):
        assert torch.equal(tensor, values(number)[rows, columns]), number
    return images.bytes_read


def main() -> None:
    options = argparse.ArgumentParser(description="Bytes read for each byte needed.")
    options.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.words[:1] == ["worker"]:
        worker(args.words[1])
        return
    from paceline.loading import find

    print(machine(), file=sys.stderr)
    needed = ROWS * COLUMNS * 4 * TENSORS
    with tempfile.TemporaryDirectory(prefix="paceline-bench-", dir=BENCH.parent) as place:
        for ranks in (2, 4):
            save(ranks, Path(place) / str(ranks))
        for saved, ranks, layout in PAIRS:
            folder = find(Path(place) / str(saved))
            for path in Path(folder).glob("*"):
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            before = fetched()
            asked = sum(restore(folder, ranks, rank, layout) for rank in range(ranks))
            read = fetched() - before
            told = f"read {read / needed:.2f}, asked {asked / needed:.2f}"
            print(f"{saved} ranks by rows → {ranks} by {layout}: {told}", flush=True)


if __name__ == "__main__":
    main()
