"""What a probe measures, fits and keeps; hosts are trees of files."""

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from paceline.parallel import cluster, device, probe
from paceline.parallel.cluster import Measured
from paceline.parallel.describe import study
from paceline.parallel.device import Host
from paceline.parallel.probe import Block, fitted
from paceline.parallel.store import Talk
from parallel_cases import Board
from torch import nn
from torch.nn.functional import mse_loss

CPU = torch.device("cpu")
PAIR = (torch.zeros(4, 64), torch.zeros(4, 64))


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.Dropout(0.1),
                         nn.Linear(256, 64))  # fmt: skip


def studied(net: nn.Module) -> Any:
    return study(net, PAIR, mse_loss, optimizer=torch.optim.AdamW, precision="fp32")


def block(**options: Any) -> Block:
    usual: dict[str, Any] = {"names": ("0",), "flops": 8e9, "saved": 1e6, "parameter_bytes": 4e6,
                             "forms": (((), ()),)}  # fmt: skip
    return Block(**usual | options)


def forward(one: Block, speeds: probe.Speeds, samples: int) -> float:
    """The cost model of the planner."""
    each = one.flops / speeds.flops + one.saved / speeds.bandwidth
    return samples * each + one.parameter_bytes / speeds.bandwidth + speeds.launch


def test_the_fit_gives_the_constants_back() -> None:
    true = probe.Speeds(flops=2e12, bandwidth=5e9, launch=3e-5)
    seconds = {n: forward(block(), true, n) for n in (1, 16)}
    found = fitted(block(), 5e9, seconds)
    assert (found.flops, found.launch) == (pytest.approx(2e12), pytest.approx(3e-5))


@pytest.mark.parametrize("bandwidth", [1e6, 1e9, 1e12])
def test_a_fit_explains_the_larger_batch_whatever_the_copy_said(bandwidth: float) -> None:
    seconds = {1: 0.004, 16: 0.050}
    found = fitted(block(), bandwidth, seconds)
    assert forward(block(), found, 16) - forward(block(), found, 1) == pytest.approx(0.046)
    assert found.launch >= 0


def test_what_a_block_of_layers_costs_beside_its_samples_is_shared_among_them() -> None:
    seconds = {1: 0.005, 16: 0.050}
    two = fitted(block(names=("0", "1"), parameter_bytes=0), 1e10, seconds)
    assert two.launch == pytest.approx(fitted(block(parameter_bytes=0), 1e10, seconds).launch / 2)


@pytest.mark.parametrize(("layers", "names"), [
    ([nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU()], ("0", "1")),
    ([nn.Linear(64, 64), nn.Linear(64, 64)], ("0",)),
    ([nn.Linear(64, 8), nn.Linear(8, 64), nn.Linear(64, 64), nn.GELU()], ("2",)),
])  # fmt: skip
def test_a_block_goes_from_a_large_layer_to_the_next_one_like_it(
    layers: list[nn.Module], names: tuple[str, ...]
) -> None:
    """What stands between them takes its time, and may have no matrix product."""
    done = studied(nn.Sequential(*layers))
    assert Block.of(done).names == names
    assert Block.of(done).flops == done.rows[int(names[0])]["flops"]


def test_noise_gives_numbers_that_a_planner_can_take() -> None:
    found = fitted(block(), 1e10, {1: 0.002, 16: 0.001})
    assert found.flops > 0 and found.launch >= 0
    assert fitted(block(flops=0, saved=0), 1e10, {1: 0.002, 4: 0.003}).flops > 0


def test_a_ring_gives_its_link_back() -> None:
    seconds, bandwidth, ranks, size = 2e-5, 4e9, 4, 4 << 20
    large = 2 * (ranks - 1) * (seconds + size / (ranks * bandwidth))
    found = probe.link_of(2 * (ranks - 1) * seconds, large, ranks)
    assert (found.seconds, found.bandwidth) == (pytest.approx(seconds), pytest.approx(bandwidth))


def test_a_probe_is_short_and_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    net = model()
    before, chance = [one.clone() for one in net.state_dict().values()], torch.get_rng_state()
    done = studied(net)
    begin = time.thread_time()
    names = [[device.name_of(CPU), 1]]
    text = probe.measure(net, done, CPU, Talk(0, 1, None, "0"), names)
    assert time.thread_time() - begin < 2, "of CPU, on any number of cores"
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(map(torch.equal, before, net.state_dict().values()))
    assert all(one.grad is None for one in net.parameters())
    found = json.loads(text or "")
    (only,) = found["types"]
    assert only["source"] == "measured" and 1e6 < only["flops"] < 1e15
    assert 1e8 < only["bandwidth"] < 1e13 and only["memory"] > 1 << 20
    # The second one reads the cache: the same numbers, to the last bit.
    assert probe.measure(net, done, CPU, Talk(0, 1, None, "1"), names) == text
    # Of another model there is none in it.
    files = list(tmp_path.rglob("*.json"))
    other = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 64))
    probe.measure(other, studied(other), CPU, Talk(0, 1, None, "2"), names)
    assert len(list(tmp_path.rglob("*.json"))) == len(files) + 1


def test_a_batch_that_the_device_does_not_hold_is_not_measured(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    done = studied(net := model())
    one = Block.of(done)
    tried: list[int] = []

    def passes(_: Any, __: Any, samples: int, *___: Any) -> Any:
        tried.append(samples)
        if samples > most:
            raise torch.OutOfMemoryError("there is none left")
        return lambda: None

    monkeypatch.setattr(probe, "passes", passes)
    monkeypatch.setattr(probe, "sustained", lambda *_: 1.0)
    # No time is measured: a pause of this process would look like a slow block, which ends the try.
    monkeypatch.setattr(probe, "best_of", lambda *_: 1.0)
    monkeypatch.setattr(probe, "_BLOCK_SECONDS", float("inf"))
    modules, most = [net.get_submodule(name) for name in one.names], 4
    assert sorted(probe._timed(modules, one, CPU, "fp32")) == [1, 4]
    assert tried[:3] == [1, 4, 16]
    most = 0
    with pytest.raises(torch.OutOfMemoryError):
        probe._timed(modules, one, CPU, "fp32")


def test_ranks_that_measured_different_numbers_give_the_next_world_the_same_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(probe, "measured_link", lambda *_, **__: None)
    done = studied(net := model())
    names = [[device.name_of(CPU), 3]]

    def world(topic: str) -> list[str]:
        board, texts = Board(), [""] * 3

        def rank(number: int) -> None:
            texts[number] = probe.measure(net, done, CPU, Talk(number, 3, board, topic), names)

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(240)
        return texts

    numbers = iter([1e9, 7e9, 3e9])
    monkeypatch.setattr(probe, "measured_speeds",
                        lambda *_: probe.Speeds(next(numbers), 1e10, 0.0))  # fmt: skip
    first = world("first")
    assert json.loads(first[0])["types"][0]["flops"] == 3e9, "the median"
    assert first == [first[0]] * 3 == world("second"), "nobody measures again"


@pytest.mark.parametrize("text", ["", "[]", '{"flops": "x"}', '{"flops": NaN, "bandwidth": 1}'])
def test_a_damaged_cache_is_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    probe.write_cache(["a"], {"flops": 1.0, "bandwidth": 2.0})
    names = ("flops", "bandwidth")
    assert probe.read_cache(["a"], names) == {"flops": 1.0, "bandwidth": 2.0}
    (file,) = tmp_path.rglob("*.json")
    file.write_text(text)
    assert probe.read_cache(["a"], names) is None


def test_devices_of_one_name_are_one_type_and_groups_are_runs() -> None:
    rows = [Measured(1e12, 1e11, 0.0, 9), Measured(3e12, 1e11, 0.0, 7),
            Measured(5e12, 1e11, 0.0, 5), Measured(2e12, 1e11, 0.0, 8)]  # fmt: skip
    text = cluster.text_of([["a", 2], ["b", 1], ["a", 1]], rows, node=2, link=None, source="x")
    found = json.loads(text)
    assert [(one["name"], one["flops"], one["memory"]) for one in found["types"]] == [
        ("a", 2e12, 7), ("b", 5e12, 5)]
    assert found["groups"] == [{"type": "a", "count": 2}, {"type": "b", "count": 1},
                               {"type": "a", "count": 1}]  # fmt: skip


# ---- hosts ----


def host(root: Path, files: dict[str, str]) -> Host:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Host(root)


BASE = {"proc/meminfo": "MemTotal:       8388608 kB\nMemFree: 1 kB\n",
        "proc/cpuinfo": "processor : 0\nmodel name\t: AMD  EPYC 9B14\n"}  # fmt: skip


def test_a_host_without_a_quota(tmp_path: Path) -> None:
    bare = host(tmp_path, BASE | {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 1"})
    assert (bare.quota(), bare.memory()) == (None, 8 << 30)
    assert device.name_of(CPU, bare) == "AMD EPYC 9B14, all cores"
    assert device.memory_of(CPU, 4, bare) == 2 << 30


def test_the_smallest_quota_and_limit_above_a_process_counts(tmp_path: Path) -> None:
    found = host(tmp_path, BASE | {
        "proc/self/cgroup": "0::/pod/rank\n",
        "sys/fs/cgroup/pod/rank/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/pod/rank/memory.max": "1073741824\n",
        "sys/fs/cgroup/pod/memory.max": "max\n",
    })  # fmt: skip
    assert (found.quota(), found.memory()) == (1.5, 1 << 30)
    assert device.name_of(CPU, found) == "AMD EPYC 9B14, 1.5 cores"


def test_cgroups_of_the_first_version(tmp_path: Path) -> None:
    found = host(tmp_path, BASE | {
        "proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/c\n",
        "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "536870912\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    })  # fmt: skip
    assert (found.quota(), found.memory()) == (0.5, 512 << 20)


# ---- accelerators, of which this machine has none ----

GPU = torch.device("cuda", 0)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    about = SimpleNamespace(total_memory=80 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: about)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("ranks", "gib"), [(1, 80), (2, 80), (3, 40), (4, 40), (5, 26)])
def test_ranks_of_one_gpu_share_its_memory(ranks: int, gib: int) -> None:
    assert device.memory_of(GPU, ranks) >> 30 == gib


@pytest.mark.usefixtures("two_gpus")
def test_two_ranks_on_a_gpu_get_gloo_which_carries_no_pipeline(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert device.backend(2) == "cpu:gloo,cuda:nccl" and device.no_sends(GPU, 4) == ""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert device.backend(4) == "gloo"
    assert device.no_sends(GPU, 4).startswith("gloo does not send a GPU's tensors")
    assert device.no_sends(GPU, 1) == device.no_sends(CPU, 4) == ""
