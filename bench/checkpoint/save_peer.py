"""One system of save.py, in a process of its own: saves the same bytes again and again.

    python3 -m bench.checkpoint.save_peer torch_save DIR BYTES TENSORS ROUNDS

Prints a JSON line for each save: how long the training was stopped, and when the bytes were on the
disk. A peer that does not sync by itself is synced for it, outside of its stall. One process, no
process group: DCP's own single-process mode, and paceline's Checkpointer without a launcher.
DLRover saves to memory only, beside the saver process that its agent would be; orbax gets NumPy
arrays.
"""

import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_saver import async_save, save

State = dict[str, torch.Tensor]


def sync(path: Path) -> None:
    for found in [path, *path.rglob("*")] if path.is_dir() else [path]:
        handle = os.open(found, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def durable(wait: Callable[[], object], path: Path) -> Callable[[], None]:
    """Of a save that goes on by itself: until it has ended and is on the disk."""

    def done() -> None:
        wait()
        sync(path)

    return done


def torch_save(state: State, path: Path) -> Callable[[], None]:
    torch.save(state, path)
    return lambda: sync(path)


def dcp_save(state: State, path: Path) -> Callable[[], None]:
    save(state, checkpoint_id=path, no_dist=True)
    return lambda: sync(path)


def dcp_async_save(state: State, path: Path) -> Callable[[], None]:
    saving: Any = async_save(state, checkpoint_id=path, no_dist=True)
    return durable(saving.result, path)


def paceline(state: State, path: Path) -> Callable[[], None]:
    """As a user has it: the tensors are a module's, and Python is in the stall."""
    from paceline.torch import Checkpointer

    if not OURS:
        OURS["state"] = {"model": torch.nn.ParameterDict(state)}
        OURS["checkpointer"] = Checkpointer(path.parent / f"ours-{len(state)}", keep=1, every=10**9)
        OURS["step"] = OURS["checkpointer"].restore(OURS["state"])
    ticket = OURS["checkpointer"].save(OURS["step"], OURS["state"])
    OURS["step"] += 1
    return lambda: ticket.wait("durable")


def dlrover(state: State, path: Path) -> Callable[[], None]:
    """Its DdpCheckpointer, of one rank: what its own launcher would set is set here."""
    if not OURS:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "LOCAL_WORLD_SIZE": "1"}
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", **place)
        os.environ["ELASTIC_JOB_NAME"] = f"bench{os.getpid()}"
        saver: Any = importlib.import_module("dlrover.python.elastic_agent.torch.ckpt_saver")
        OURS["saver"] = os.fork()
        if OURS["saver"] == 0:
            saver.AsyncCheckpointSaver.start_async_saving_ckpt()
            signal.pause()
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{path.parent}/store", rank=0, world_size=1
        )
        ddp: Any = importlib.import_module("dlrover.trainer.torch.flash_checkpoint.ddp")
        OURS["checkpointer"] = ddp.DdpCheckpointer(str(path.parent / "dlrover"))
        OURS["memory"] = ddp.StorageType.MEMORY
    OURS["step"] = OURS.get("step", -1) + 1
    OURS["checkpointer"].save_checkpoint(OURS["step"], state, storage_type=OURS["memory"])
    return lambda: None


def torchsnapshot(state: State, path: Path) -> Callable[[], None]:
    package: Any = importlib.import_module("torchsnapshot")
    saving = package.Snapshot.async_take(str(path), {"state": package.StateDict(**state)})
    return durable(saving.wait, path)


def orbax(state: State, path: Path) -> Callable[[], None]:
    if not OURS:
        package: Any = importlib.import_module("orbax.checkpoint")
        OURS["checkpointer"] = package.AsyncCheckpointer(package.PyTreeCheckpointHandler())
    OURS["checkpointer"].save(path.resolve(), {name: one.numpy() for name, one in state.items()})
    return durable(OURS["checkpointer"].wait_until_finished, path)


def memcpy(state: State, path: Path) -> Callable[[], None]:
    """The limit that the others' stalls are divided by: one copy of the same tensors, in warm
    memory, by torch with one thread."""
    del path
    for name, tensor in state.items():
        COPIES[name].copy_(tensor)
    return lambda: None


COPIES: State = {}
OURS: dict[str, Any] = {}
PEERS = {
    "paceline": paceline,
    "torch_save": torch_save,
    "dcp_save": dcp_save,
    "dcp_async_save": dcp_async_save,
    "dlrover": dlrover,
    "torchsnapshot": torchsnapshot,
    "orbax": orbax,
}


def main() -> None:
    peer, folder, total, tensors, rounds = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    each = int(total) // int(tensors) // 4
    state = {f"tensor{i:06d}": torch.randn(each) for i in range(int(tensors))}
    COPIES.update({name: tensor.clone() for name, tensor in state.items()})
    for number in range(int(rounds)):
        for name, begin in ((peer, PEERS[peer]), ("memcpy", memcpy)):
            path = Path(folder) / f"{name}.{number}"
            start = time.monotonic()
            done = begin(state, path)
            stall = time.monotonic() - start
            done()
            durable = time.monotonic() - start
            row = {"what": name, "round": number, "seconds": stall, "durable": durable}
            print(json.dumps({**row, "bytes": int(total)}), flush=True)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    if "saver" in OURS:
        os.kill(OURS["saver"], signal.SIGKILL)


if __name__ == "__main__":
    main()
