"""Workers on a live stream; each writes the records that it worked on, in its own file.

Workers of even ranks decode each record, the others whole batches.

A worker ends when there is a file OUT/end. With --checkpoint the world may begin again after that
and go back to a checkpoint. A worker then ends only when it has read a record that was sent after
OUT/end (WAKE and above) from each of its partitions, at least two: two workers share four.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

from leasing import Counts

import paceline
from paceline.data import LeasedLoader, Stream

WAKE = 10**6
PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--pace", type=float, default=0.01)
    parser.add_argument("--deadline", type=float, default=30.0)
    parser.add_argument("--checkpoint", default="")
    given = parser.parse_args()
    rank = paceline.rank()
    print(f"rank {rank} pid {os.getpid()}", flush=True)
    way: dict[str, Any] = {"decode_batch": at_once} if rank % 2 else {"decode": of}
    stream = Stream(given.url, name="clicks", **way)
    loader: Any = LeasedLoader(stream, batch=8, wait=0.1, deadline=given.deadline,
                               resume="checkpoint" if given.checkpoint else "acks")
    counts = Counts()
    behind: set[int] = set()  # partitions whose newest record was sent before OUT/end
    woken: set[int] = set()
    step = 0
    ckpt = None
    state: dict[str, Any] = {"counts": counts, "data": loader}
    if given.checkpoint:
        from paceline.numpy import Checkpointer

        ckpt = Checkpointer(given.checkpoint)
        step = ckpt.restore(state)
    with open(given.out / f"work-{rank}-{os.getpid()}", "a", buffering=1) as work:
        for batch in loader:
            for sample in batch:
                work.write(f"{sample}\n")
                counts.seen[str(sample)] = counts.seen.get(str(sample), 0) + 1
                (woken if sample >= WAKE else behind).add(sample % PARTITIONS)
            time.sleep(given.pace)
            if ckpt is not None and step % 7 == 6:
                ckpt.save(step, state)
            step += 1
            paceline.step(step)
            counts.write(given.out / f"counts-{rank}")
            is_through = ckpt is None or (len(woken) >= 2 and behind <= woken)
            if is_through and (given.out / "end").exists():
                break
    loader.done()
    loader.close()


def at_once(records: Any) -> list[int]:
    column = "click" if "click" in records.schema.names else "value"
    return [int(one) for one in records.column(column).to_pylist()]


def of(record: Any) -> int:
    return record["click"] if isinstance(record, dict) else int(record)


if __name__ == "__main__":
    main()
