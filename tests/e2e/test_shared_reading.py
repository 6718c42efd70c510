"""A world of another size over several hosts: each chunk of storage is read by one host for all."""

from __future__ import annotations

import os
import re
import signal

import pytest
from far_disk import FarDisk, needs_fuse
from hosts import Host, again, needs_hosts
from hosts import start as begin
from job import eventually
from object_store import BUCKET
from test_peers_storage import run, store  # noqa: F401, a fixture

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_hosts

# Arguments: place of checkpoints, dimension that is cut, file for what was found.
SCRIPT = """
import sys
import paceline.torch as pl, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
place, cut, out = sys.argv[1:]
whole = torch.arange(1536.0 * 4096).reshape(1536, 4096)
is_first = cut == "0"
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
begin = whole if is_first else torch.zeros_like(whole)
state = {"w": distribute_tensor(begin, mesh, [Shard(int(cut))])}
with pl.Checkpointer(place) as ckpt:
    step = ckpt.restore(state)
    good = torch.equal(state["w"].full_tensor(), whole)
    ckpt.save(step, state)
open(f"{out}-{dist.get_rank()}", "w").write(f"{step} {good} {ckpt.restored}")
dist.destroy_process_group()
"""
STATE_BYTES = 1536 * 4096 * 4
SHARDS = r"/step-0-g\d+/shard-"  # of the checkpoint that is restored


def shared(host: Host) -> dict[str, int]:
    """What the host's agent read of storage for ranks of all hosts, and took from the others."""
    log = (host.job.run_dir / "logs" / host.name / "agent.log").read_text()
    found = re.findall(r"storage_shared read_bytes=(\d+) taken_bytes=(\d+)", log)
    return {"read": sum(int(read) for read, _ in found),
            "taken": sum(int(taken) for _, taken in found)}


def save(hosts: list[Host], place: str) -> list[Host]:
    """By rows, by two hosts, which are returned."""
    (hosts[0].job.directory / "reshard.py").write_text(SCRIPT)
    two = hosts[:2]
    hosts[0].job.be_patient()
    out = str(hosts[0].job.directory / "rows")
    run(two, "--nnodes", "2", script=[*words(two, place, "0"), out])
    return two


def in_three(two: list[Host], hosts: list[Host]) -> list[Host]:
    """For the next job, which loses none of them: a world more would read once more."""
    three = [*again(two), hosts[2]]
    three[0].job.be_patient()
    return three


def words(hosts: list[Host], place: str, cut: str) -> list[str]:
    return [str(hosts[0].job.directory / "reshard.py"), place, cut]


def restore_words(hosts: list[Host], place: str) -> list[str]:
    return [*words(hosts, place, "1"), str(hosts[0].job.directory / "columns")]


def expect_columns(hosts: list[Host]) -> None:
    for rank in range(len(hosts)):
        found = hosts[0].job.directory / f"columns-{rank}"
        step, good, *why = found.read_text().split()
        assert (step, good) == ("1", "True"), why
        assert "from step-0" in " ".join(why)


def reshard(hosts: list[Host], place: str) -> list[Host]:
    """Saved by rows by two hosts, restored by columns by three. Returns those."""
    three = in_three(save(hosts, place), hosts)
    run(three, "--nnodes", "3", script=restore_words(three, place))
    expect_columns(three)
    return three


def expect_read_once(hosts: list[Host]) -> None:
    told = {host.name: shared(host) for host in hosts}
    read = sum(one["read"] for one in told.values())
    # Beside the tensors there are headers and notes.
    assert STATE_BYTES < read < STATE_BYTES + (64 << 10), told
    assert all(0 < one["read"] < STATE_BYTES for one in told.values()), told
    # Each host has a part of every chunk.
    assert all(one["read"] + one["taken"] > STATE_BYTES for one in told.values()), told


@needs_fuse
def test_a_directory_is_read_once_for_all_hosts(hosts: list[Host]) -> None:
    far = FarDisk(hosts[0].job.directory)
    try:
        expect_read_once(reshard(hosts, str(far.path / "ckpt")))
        # The server of the file system says the same: no kernel reads ahead into chunks that other
        # hosts read. The hosts share one page cache here, and opening a file empties it for that
        # file. So each open may make the kernel ask once more for the 128 KiB that just came.
        assert far.bytes_read(SHARDS) < 1.03 * STATE_BYTES
    finally:
        far.end()


@needs_fuse
def test_an_agent_that_dies_while_ranks_read_by_it_costs_no_bit(hosts: list[Host]) -> None:
    """Its rank asks the next one; the other hosts are told where that one listens."""
    far = FarDisk(hosts[0].job.directory)
    try:
        three = in_three(save(hosts, str(far.path / "ckpt")), hosts)
        # Nobody gets further than that.
        with far.holding(STATE_BYTES // 4):
            begin(three, "--nnodes", "3", script=restore_words(three, str(far.path / "ckpt")))
            eventually(lambda: far.bytes_read(SHARDS) > STATE_BYTES / 8, "somebody reads",
                       job=three[0].job)
            agent = three[1].job.agent_pid("host1")
            os.kill(agent, signal.SIGKILL)
        for host in three:
            assert host.job.wait() == 0, host.job.stderr
        expect_columns(three)
        assert three[1].job.agent_pid("host1") != agent
    finally:
        far.end()


def test_an_object_store_is_read_once_for_a_world_of_another_size(
    hosts: list[Host], store: object  # noqa: F811
) -> None:
    expect_read_once(reshard(hosts, f"s3://{BUCKET}/reshard"))
