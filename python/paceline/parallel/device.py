"""This rank's device: its name, its CPU quota, and the memory that it may use."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

_NO_LIMIT = 1 << 60  # cgroup v1 writes a number near 2^63 for "no limit"


@dataclass(frozen=True, slots=True)
class Host:
    """The paths of a host's files; tests use a tree of their own."""

    root: Path = Path("/")

    def read(self, path: str) -> str:
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def quota(self) -> float | None:
        """The number of cores that this process may use, by the smallest quota of its cgroups.
        None: no quota.
        """
        found: list[float] = []
        for folder in self._groups("cpu"):
            whole = self.read(f"{folder}/cpu.max").split()
            if len(whole) != 2:  # cgroup v1
                whole = [self.read(f"{folder}/cpu.cfs_{one}_us").strip()
                         for one in ("quota", "period")]  # fmt: skip
            try:
                quota, period = float(whole[0]), float(whole[1])
            except ValueError:
                continue
            if quota > 0 and period > 0:
                found.append(quota / period)
        return round(min(found), 2) if found else None

    def memory(self) -> int:
        """Bytes of memory that this process may use: the host's memory, or the smallest limit of
        its cgroups.
        """
        found = [_kib(self.read("proc/meminfo"), "MemTotal:")]
        for folder in self._groups("memory"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = self.read(f"{folder}/{name}").strip()
                if text.isdigit() and 0 < int(text) < _NO_LIMIT:
                    found.append(int(text))
        return min(one for one in found if one > 0) if any(found) else 0

    def cpu(self) -> str:
        for line in self.read("proc/cpuinfo").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return " ".join(value.split())
        return platform.machine()

    def _groups(self, controller: str) -> Iterator[str]:
        """The folders of this process's cgroup and of its parents."""
        for line in self.read("proc/self/cgroup").splitlines():
            _, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if names and controller not in names.split(","):
                continue
            base = f"sys/fs/cgroup/{controller}" if names else "sys/fs/cgroup"
            parts = [one for one in path.split("/") if one not in ("", ".", "..")]
            for depth in range(len(parts), -1, -1):
                yield "/".join([base, *parts[:depth]])


def _kib(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0


def device() -> torch.device:
    """The device of this rank: the accelerator with the number of the local rank, else the CPU."""
    if torch.cuda.is_available():
        local = int(os.environ.get("LOCAL_RANK", "0"))
        return torch.device("cuda", local % torch.cuda.device_count())
    return torch.device("cpu")


def settle(place: torch.device) -> None:
    """Make it the current device: FSDP2 and torch's pipelining use the current one, not the one of
    the model.
    """
    if place.type == "cuda":
        torch.cuda.set_device(place)


def backend(local_ranks: int) -> str:
    """The backend of a world of these devices.

    NCCL refuses two ranks on one accelerator, and gloo does not.
    """
    if not torch.cuda.is_available() or local_ranks > torch.cuda.device_count():
        return "gloo"
    return "cpu:gloo,cuda:nccl"


def no_sends(place: torch.device, ranks: int) -> str:
    """Why this world does not exchange tensors of the device as stages of a pipeline and DTensors
    do; "" if it does. The world may not be formed yet.
    """
    if place.type != "cuda" or ranks == 1:
        return ""
    used = dist.get_backend_config() if dist.is_initialized() else backend(local_ranks(ranks))
    is_gloo = used == "gloo" or "cuda:gloo" in used
    return "gloo does not send a GPU's tensors from rank to rank" if is_gloo else ""


def name_of(place: torch.device, host: Host | None = None) -> str:
    """The name of the device, the same for ranks with equal devices: `"AMD EPYC 9B14, 1.5
    cores"`.
    """
    if place.type == "cuda":
        return torch.cuda.get_device_name(place)
    host = host or Host()
    quota = host.quota()
    return f"{host.cpu()}, {'all' if quota is None else f'{quota:g}'} cores"


def memory_of(place: torch.device, local_ranks: int, host: Host | None = None) -> int:
    """Bytes that this rank may use; ranks of one host share its memory evenly, and those of one
    accelerator that accelerator's.
    """
    if place.type == "cuda":
        sharing = -(-local_ranks // max(1, torch.cuda.device_count()))
        return torch.cuda.get_device_properties(place).total_memory // max(1, sharing)
    return (host or Host()).memory() // max(1, local_ranks)


def local_ranks(world_size: int) -> int:
    """The number of ranks on this host, from the launcher's variable; without it, all ranks."""
    try:
        return max(1, int(os.environ["LOCAL_WORLD_SIZE"]))
    except (KeyError, ValueError):
        return world_size
