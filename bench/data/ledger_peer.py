"""DLRover's side of data_ledger.py, in an interpreter of its own: a JSON line a round."""

# pyright: reportMissingImports=false

import json
import logging
import random
import sys
import time

from dlrover.python.common.log import default_logger
from dlrover.python.master.shard.base_dataset_manager import DatasetShardCheckpoint
from dlrover.python.master.shard.batch_dataset_manager import BatchDatasetManager
from dlrover.python.master.shard.dataset_splitter import TableDatasetSplitter

SHARDS, SAMPLES_A_SHARD, OPEN = 50_000, 100, 1_000

default_logger.setLevel(logging.ERROR)  # it logs each task


def manager() -> BatchDatasetManager:
    size = SHARDS * SAMPLES_A_SHARD
    splitter = TableDatasetSplitter("data", size, SAMPLES_A_SHARD, 1)
    return BatchDatasetManager("training", 1, splitter)


for seed in range(int(sys.argv[1])):
    one = manager()
    taken = [one.get_task("worker", n % OPEN).task_id for n in range(SHARDS // 2 + OPEN)]
    random.Random(seed).shuffle(taken)
    for task in taken[OPEN:]:
        one.report_task_status(task, True)
    assert len(one.get_doing_tasks()) == OPEN
    again = manager()
    began = time.perf_counter()
    text = one.checkpoint().to_json()
    written = time.perf_counter()
    again.restore_checkpoint(DatasetShardCheckpoint.from_json(text))
    restored = time.perf_counter()
    print(json.dumps({"bytes": len(text), "write": written - began, "read": restored - written}))
