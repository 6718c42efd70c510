"""What torch's own tests ask of torchrun, asked of `paceline run` with the same arguments.

The cases follow test/distributed/launcher/test_run.py of PyTorch. Five of its cases are about
torchrun's own Python objects, which paceline does not have: the agent's exception, the shutdown of
a rendezvous handler, a script without a launcher, the parser of `--nnodes` as a function, and
compiled code for two GPUs. test_torchrun_flags.py compares the parser.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from free_ports import free_port
from job import (
    DEADLINE_S,
    GRACE_S,
    PATIENT,
    binary,
    eventually,
    processes_of,
    shared_runtime_dir,
)

torch = pytest.importorskip("torch", reason="torch is not installed: NOT RUN")

FOUR = {"0", "1", "2", "3"}
SENTINEL = "TEST_SENTINEL_PARENT"
VARIABLES = [
    "LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS",
    "TORCHELASTIC_ERROR_FILE", SENTINEL,
]
PYTHON = f"""
import os, pathlib, sys
for name in {VARIABLES!r}:
    print(name, os.environ[name])
if sys.argv[1] == "--fail":
    raise RuntimeError("asked to fail")
pathlib.Path(sys.argv[1].split("=")[1], os.environ["RANK"]).touch()
"""
SHELL = '#!/bin/bash\necho "creating $1/$RANK"\ntouch "$1/$RANK"\n'
GROUP = """
import os, sys
import torch
import torch.distributed as dist
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=size)
ones = torch.nn.functional.one_hot(torch.tensor(rank), num_classes=size)
dist.all_reduce(ones)
assert int(ones.sum()) == size == dist.get_world_size()
print("rank", rank, "met", size)
"""
LAUNCHED = """
import sys
import torch.distributed as dist
open(sys.argv[1], "w").write(str(dist.is_torchelastic_launched()))
"""
COMMON = ["--monitor-interval=1", "--start-method=spawn"]
# A device of each kind as the kernel lists it: a folder of NVIDIA's driver, a node of Intel's.
THREE_GPUS = ("mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/{0,1,2}")
THREE_XPUS = ("mount -t tmpfs none /sys/class && "
              "for n in 128 129 130; do mkdir -p /sys/class/drm/renderD$n/device; "
              "echo 0x8086 > /sys/class/drm/renderD$n/device/vendor; done")


class Bench:
    """A directory with the scripts, and `paceline run` in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.touched = directory / "touched"
        self.touched.mkdir()
        self._running: list[subprocess.Popen[str]] = []
        for name, text in {"script.py": PYTHON, "script.sh": SHELL, "group.py": GROUP,
                           "launched.py": LAUNCHED}.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)

    def start(self, args: Sequence[str], env: Mapping[str, str] | None = None,
              prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
        usual = {name: value for name, value in os.environ.items()
                 if not name.startswith(("PET_", "PYTEST_"))}
        started = subprocess.Popen(
            [*prefix, str(binary()), "run", *args], cwd=self.directory, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**usual, **PATIENT, SENTINEL: "FOOBAR",
                 "PACELINE_RUNTIME_DIR": str(shared_runtime_dir()), **(env or {})})
        self._running.append(started)
        return started

    def run(self, args: Sequence[str], env: Mapping[str, str] | None = None,
            prefix: Sequence[str] = ()) -> tuple[int, str, str]:
        started = self.start(args, env, prefix)
        out, err = started.communicate(timeout=DEADLINE_S)
        return started.returncode, out, err

    def succeeds(self, args: Sequence[str], env: Mapping[str, str] | None = None,
                 prefix: Sequence[str] = ()) -> str:
        code, out, err = self.run(args, env, prefix)
        assert code == 0, err
        return out

    def ranks(self) -> set[str]:
        """The global ranks that ran. Forgets them."""
        found = set(os.listdir(self.touched))
        for name in found:
            (self.touched / name).unlink()
        return found

    def end(self) -> None:
        """Kills the launchers that still run. A starter ends a moment after its launcher."""
        for started in self._running:
            if started.poll() is None:
                started.kill()
                started.wait()
        eventually(lambda: not self.left(), "nothing of any job lives on", GRACE_S)

    def left(self) -> dict[int, str]:
        left: dict[int, str] = {}
        for run_dir in (self.directory / "runs").glob("*"):
            left |= processes_of(run_dir.name, run_dir)
        return left


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def python_script(bench: Bench) -> list[str]:
    return ["script.py", f"--touch-file-dir={bench.touched}"]


def shell_script(bench: Bench) -> list[str]:
    return ["./script.sh", str(bench.touched)]


def elastic(port: int, conf: str) -> list[str]:
    return ["--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d",
            f"--rdzv-endpoint=localhost:{port}", f"--rdzv-conf={conf}", "--rdzv-id=77", *COMMON]


@pytest.mark.parametrize("flags", [["--rdzv-id=77"], ["--standalone"], ["--run-path"]])
def test_a_python_script(bench: Bench, flags: list[str]) -> None:
    bench.succeeds(["--nnodes=1", "--nproc-per-node=4", *flags, *COMMON, *python_script(bench)])
    assert bench.ranks() == FOUR


def test_a_static_rendezvous(bench: Bench) -> None:
    bench.succeeds(["--nnodes=1", "--nproc-per-node=4", *COMMON, "--master-addr=localhost",
                    f"--master-port={free_port()}", "--node-rank=0", *python_script(bench)])
    assert bench.ranks() == FOUR


@pytest.mark.parametrize(("flags", "ranks"), [
    (["--nproc-per-node=4"], FOUR),
    ([], {"0"}),
    (["--nproc-per-node=auto"], {str(rank) for rank in range(len(os.sched_getaffinity(0)))}),
])
def test_a_program(bench: Bench, flags: list[str], ranks: set[str]) -> None:
    common = ["--nnodes=1", *flags, "--rdzv-id=77", *COMMON, "--no-python"]
    code, _, err = bench.run([*common, "--module", *shell_script(bench)])
    assert code == 2 and "exclude each other" in err
    assert bench.ranks() == set()
    bench.succeeds([*common, *shell_script(bench)])
    assert bench.ranks() == ranks


def test_flags_from_the_environment(bench: Bench) -> None:
    env = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "77",
           "PET_MONITOR_INTERVAL": "1", "PET_START_METHOD": "spawn", "PET_NO_PYTHON": "1"}
    code, _, err = bench.run(shell_script(bench), {**env, "PET_MODULE": "1"})
    assert code == 2 and "exclude each other" in err
    bench.succeeds(shell_script(bench), {**env, "PET_MODULE": "0"})
    assert bench.ranks() == FOUR


def test_an_unknown_number_of_ranks_is_refused(bench: Bench) -> None:
    code, _, err = bench.run(["--nnodes=1", "--nproc-per-node=unknown", "--rdzv-id=77", *COMMON,
                              "--no-python", *shell_script(bench)])
    assert code == 2 and 'cannot be "unknown"' in err
    assert bench.ranks() == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: only root can show devices that are not")
@pytest.mark.parametrize(("shown", "kind"), [
    (THREE_GPUS, "auto"), (THREE_GPUS, "gpu"), (THREE_XPUS, "auto"), (THREE_XPUS, "xpu"),
])
def test_a_rank_for_each_device(bench: Bench, shown: str, kind: str) -> None:
    prefix = ["unshare", "-m", "bash", "-c", f'{shown} && exec "$@"', "-"]
    bench.succeeds(["--nnodes=1", f"--nproc-per-node={kind}", "--rdzv-id=77", *COMMON,
                    "--no-python", *shell_script(bench)], prefix=prefix)
    assert bench.ranks() == {"0", "1", "2"}


# Some shells and YAML files hand the quotes on, as torch's own tests do.
@pytest.mark.parametrize("conf", ["timeout=5", "'join_timeout=5,last_call_timeout=1,timeout=5'"])
def test_an_elastic_job_of_fewer_nodes_than_it_may_have(bench: Bench, conf: str) -> None:
    bench.succeeds([*elastic(free_port(), conf), *python_script(bench)])
    assert bench.ranks() == FOUR


def test_a_script_that_raises(bench: Bench) -> None:
    conf = "'join_timeout=5,last_call_timeout=1,timeout=5'"
    code, _, err = bench.run([*elastic(free_port(), conf), "--max-restarts=0",
                              "script.py", "--fail"])
    assert code == 1
    assert "RuntimeError: asked to fail" in err


def test_two_launchers_of_one_command_at_once(bench: Bench) -> None:
    conf = "timeout=5,last_call_timeout=60"  # the first world waits for the later one
    args = [*elastic(free_port(), conf), *python_script(bench)]
    first, second = bench.start(args), bench.start(args)
    said = [one.communicate(timeout=DEADLINE_S)[1] for one in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert bench.ranks() == {str(rank) for rank in range(8)}


@pytest.mark.parametrize("flags", [[], ["--logs_specs=default"]])
def test_torch_knows_its_launcher(bench: Bench, flags: list[str]) -> None:
    out = bench.directory / "out"
    bench.succeeds(["--run-path", "--nnodes=1", "--nproc-per-node=1", "--monitor-interval=1",
                    *flags, "launched.py", str(out)])
    assert out.read_text() == "True"


def test_a_script_without_a_launcher_knows_that(bench: Bench) -> None:
    out = bench.directory / "out"
    subprocess.run([sys.executable, "launched.py", str(out)], cwd=bench.directory, check=True)
    assert out.read_text() == "False"


def test_unknown_logs_specs_are_refused(bench: Bench) -> None:
    code, _, err = bench.run(["--run-path", "--nnodes=1", "--nproc-per-node=1",
                              "--monitor-interval=1", "--logs_specs=DOESNOT_EXIST", "launched.py"])
    assert code == 2 and "DOESNOT_EXIST" in err


@pytest.mark.parametrize("method", ["tcp://localhost:{}", "env://"])
def test_a_process_group_at_the_port_that_was_given(bench: Bench, method: str) -> None:
    port = free_port()
    out = bench.succeeds(["--run-path", "--nnodes=1", "--nproc-per-node=4",
                          "--master-addr=localhost", f"--master-port={port}",
                          "--monitor-interval=1", "group.py", method.format(port)])
    for rank in range(4):
        assert f"rank {rank} met 4" in out


def test_output_that_is_shown_with_a_prefix(bench: Bench) -> None:
    out = bench.succeeds(["--nnodes=1", "--nproc-per-node=4", "--rdzv-id=77", "--redirect=3",
                          "--tee=3", *COMMON, "--no-python", *shell_script(bench)],
                         {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank${rank}]: "})
    for rank in FOUR:
        assert f"[rank{rank}]: creating " in out
