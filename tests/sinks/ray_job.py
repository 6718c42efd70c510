"""Ray Data writes clicks FIRST to LAST: `ray_job.py URL SECRETS EPOCH FIRST LAST`."""

from __future__ import annotations

import os
import sys
from typing import Any

import faulty
import ray
from paceline.sinks.ray import PacelineSink


def clicks(batch: dict[str, Any], first: int) -> dict[str, Any]:
    return {"click": batch["id"] + first}


def main() -> None:
    url, secrets, epoch, first, last = sys.argv[1:]
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["SCRATCH"],
             object_store_memory=100 << 20)
    sink = PacelineSink(url, app="ray", epoch=epoch, secrets=secrets)
    sink._sink = faulty.FaultySink(url, app="ray", secrets=secrets)
    data = ray.data.range(int(last) - int(first), override_num_blocks=6)
    data.map_batches(clicks, fn_kwargs={"first": int(first)}).write_datasink(sink)
    ray.shutdown()


if __name__ == "__main__":
    main()
