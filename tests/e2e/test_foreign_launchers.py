"""Checkpoints under launchers that are not ours: their restarts go on from memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hosts import Host as Machine
from hosts import needs_hosts
from job import SCRIPTS, JsonDict, binary, eventually

TOOLS = Path(binary()).parent
LIMIT_S = 600  # each start imports torch on every rank


class Host:
    """A host of its own for keepers: their folder, and what they leave in memory."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        self.env = {**os.environ, "PACELINE_RUNTIME_DIR": str(runtime), "OMP_NUM_THREADS": "1",
                    "PACELINE_BIN": str(binary()),
                    # torch 2.15 gives the store of one start to the next one, where gloo finds
                    # addresses of ranks that are dead: its restarts fail then, with any script.
                    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        for name in ("PACELINE_CHECKPOINT_SOCKET", "WORLD_SIZE", "RANK"):
            self.env.pop(name, None)

    def processes(self) -> list[int]:
        """Launchers, ranks and keepers, also those that a test left behind."""
        word = f"PACELINE_RUNTIME_DIR={self.runtime}".encode()
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if word in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        while pids := self.processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for lock in self.runtime.glob("*.lock"):
            job = lock.name.removesuffix(".sock.lock")
            for memory in Path("/dev/shm").glob(f"paceline-{os.getuid()}/{job}"):
                shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)


@pytest.fixture
def host() -> Iterator[Host]:
    one = Host(Path(tempfile.mkdtemp(prefix="pl-fl-", dir="/tmp")))
    yield one
    one.end()


def torchrun(*flags: str) -> list[str]:
    return [str(TOOLS / "torchrun"), "--standalone", "--monitor-interval", "0.1", *flags]


def train(host: Host, launcher: list[str], folder: Path, name: str, *flags: str) -> Path:
    """Run the script to its end under that launcher; where it wrote what became of it."""
    out = folder / f"out-{name}"
    words = [*launcher, str(SCRIPTS / "foreign.py"), "--checkpoint", str(folder / f"ckpt-{name}"),
             "--out", str(out), *flags]
    done = subprocess.run(words, env=host.env, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)
    assert done.returncode == 0, done.stderr
    return out


def lines(path: Path) -> list[JsonDict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def must_have_read_each_sample_once(out: Path, ranks: int, restart: int, steps: int = 12) -> None:
    """Steps before `restart` as they were done first, the others as they were done last."""
    read: list[int] = []
    for rank in range(ranks):
        for step in range(steps):
            done = [one for one in lines(out / f"saved-{rank}") if one["step"] == step]
            read += done[0 if step < restart else -1]["samples"]
    assert sorted(read) == list(range(8 * steps))


def must_go_on_from_memory(out: Path, quiet: Path, ranks: int) -> None:
    """The restart of `out` restored the newest whole step, and ended as `quiet` did."""
    starts = set()
    for rank in range(ranks):
        first, second = lines(out / f"restored-{rank}")
        assert first["start"] == 0
        start = second["start"]
        starts.add(start)
        assert start in (7, 8), second  # the newest that both have, of 0 … 7
        assert "from memory" in second["why"], second
        saved = [one for one in lines(out / f"saved-{rank}") if one["step"] == start - 1]
        assert second["state"] == saved[0]["state"], "what was saved last came back, bit for bit"
        assert (out / f"final-{rank}").read_text() == (quiet / f"final-{rank}").read_text()
    assert len(starts) == 1, starts
    must_have_read_each_sample_once(out, ranks, starts.pop())


def test_torchrun_restarts_from_memory(host: Host, tmp_path: Path) -> None:
    quiet = train(host, torchrun("--nproc-per-node", "2"), tmp_path, "quiet")
    out = train(host, torchrun("--nproc-per-node", "2", "--max-restarts", "1"), tmp_path, "killed",
                "--die", "1:7")
    must_go_on_from_memory(out, quiet, 2)


def test_accelerate_launch_restarts_from_memory(host: Host, tmp_path: Path) -> None:
    launcher = [str(TOOLS / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2",
                "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
                "--rdzv_backend", "c10d", "--main_process_port", "0", "--max_restarts", "1",
                "--monitor_interval", "0.1"]
    quiet = train(host, launcher, tmp_path, "quiet", "--accelerate")
    out = train(host, launcher, tmp_path, "killed", "--accelerate", "--die", "0:7")
    must_go_on_from_memory(out, quiet, 2)


def over_hosts(machines: list[Machine], folder: Path, name: str, *flags: str) -> Path:
    """Run the script under one torchrun a host, to its end."""
    out = folder / f"out-{name}"
    words = [str(TOOLS / "torchrun"), "--nnodes", "2", "--nproc-per-node", "2",
             "--rdzv-backend", "c10d", "--rdzv-endpoint", f"host0:{29500 + len(name)}",
             "--rdzv-id", name, "--monitor-interval", "0.1", "--max-restarts", "1",
             str(SCRIPTS / "foreign.py"), "--checkpoint", str(folder / f"ckpt-{name}"),
             "--out", str(out), *flags]
    started = []
    for machine in machines[:2]:
        env = Host(Path(machine.runtime)).env | {"GLOO_SOCKET_IFNAME": "eth0"}
        started.append(subprocess.Popen([*machine.inside(), *words], env=env, text=True,
                                        stderr=subprocess.PIPE))
    said = [one.communicate(timeout=LIMIT_S)[1] for one in started]
    assert [one.returncode for one in started] == [0, 0], "\n".join(said)
    return out


@needs_hosts
def test_two_hosts_restart_from_memory(hosts: list[Machine], tmp_path: Path) -> None:
    quiet = over_hosts(hosts, tmp_path, "quiet")
    out = over_hosts(hosts, tmp_path, "killed", "--die", "3:7")
    must_go_on_from_memory(out, quiet, 4)
    # The keeper of rank 0's host had the last step of all of them written.
    (last,) = (tmp_path / "ckpt-killed").glob("step-11-*")
    assert len(json.loads((last / "MANIFEST.json").read_text())["ranks"]) == 4


def test_leases_of_a_start_before_count(host: Host, tmp_path: Path) -> None:
    """Under torchrun: what was acknowledged before a SIGKILL is not leased again."""
    words = [*torchrun("--nproc-per-node", "2", "--max-restarts", "1"), str(SCRIPTS / "leasing.py"),
             "--out", str(tmp_path), "--samples", "600", "--pace", "0.005", "--deadline", "600",
             "--hold", "150"]
    env = {**host.env, "XDG_STATE_HOME": str(tmp_path / "state")}
    with subprocess.Popen(words, env=env, text=True, stderr=subprocess.PIPE) as running:
        first = eventually(lambda: next(iter(tmp_path.glob("work-1-*")), None), "rank 1 works")
        eventually(lambda: len(first.read_text().split()) > 50, "rank 1 has done some")
        os.kill(int(first.name.split("-")[2]), signal.SIGKILL)
        (tmp_path / "go").touch()
        said = running.communicate(timeout=LIMIT_S)[1]
    assert running.returncode == 0, said
    files = list(tmp_path.glob("work-*"))
    done = [int(word) for one in files for word in one.read_text().split()]
    assert len(files) == 4 and set(done) == set(range(600))
    # The sample that a rank worked on when it ended does not count.
    assert len(done) <= 600 + 2
