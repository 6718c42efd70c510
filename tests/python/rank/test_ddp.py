"""Real DDP over gloo, forked from one warm starter; a rank is killed and a new world begins."""

import os
import signal
from pathlib import Path

from agent_double import Starter, kill_group, starter, wait_until
from free_ports import free_port

TRAIN = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
gathered = [None, None]
dist.all_gather_object(gathered, os.getpid())
print(len(set(gathered)))
dist.destroy_process_group()
"""


def start_world(running: Starter, generation: int, steps: int) -> list[int]:
    port = free_port()
    pids: list[int] = []
    for rank in range(2):
        env = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }
        spawned = running.spawn(
            "script", "train.py", str(steps), rank=rank, env=env, generation=generation,
            store_port=port,
        )  # fmt: skip
        assert spawned["how"] == "fork", spawned
        pids.append(spawned["pid"])
    return pids


def test_world_after_world_from_one_starter(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with starter(tmp_path, "--entry", "train.py") as running:
        first, second = start_world(running, 1, 10**9)
        wait_until(lambda: all(running.slot(i)["step"] > 3 for i in range(2)), "the first steps")
        os.kill(first, signal.SIGKILL)
        assert running.peer.wait("exited", pid=first)["wait_status"] == signal.SIGKILL
        kill_group(second)  # which may have ended by itself, because its peer is gone
        running.peer.wait("exited", pid=second)
        for pid in start_world(running, 2, 5):
            assert running.peer.wait("exited", pid=pid)["wait_status"] == 0
        for index in range(2):
            slot = running.slot(index)
            assert (slot["generation"], slot["step"], slot["attempt"]) == (2, 5, 2)
        assert (tmp_path / f"out{running.next_id}").read_text() == "2\n"
