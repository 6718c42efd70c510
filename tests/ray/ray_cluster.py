"""A Ray of several raylets on this machine, and jobs on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from paceline.integrations.ray.calls import ask, kill
from paceline.integrations.ray.submit import find_adapter

PACELINE = str(Path(sys.executable).with_name("paceline"))
SCRIPTS = Path(__file__).resolve().parents[1] / "k8s" / "scripts"
_STORE_BYTES = 80 << 20
T = TypeVar("T")
# Reached only by what hangs.
DEADLINE_S = 300.0


def eventually(look: Callable[[], T], what: str) -> T:
    """The first true value of `look`."""
    until = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < until, f"not seen in {DEADLINE_S} s: {what}"
        time.sleep(0.1)
    return found


class RunsCommands(Protocol):
    """A Ray on which a user types commands."""

    def run(self, *words: str) -> subprocess.CompletedProcess[str]: ...


class RayCluster:
    """A head without CPUs, and `raylets` raylets with one CPU each.

    `variables` are of the head's environment.
    """

    def __init__(self, raylets: int, **variables: str) -> None:
        from ray.cluster_utils import Cluster

        self._cluster: Any = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "object_store_memory": _STORE_BYTES, "include_dashboard": False,
            "env_vars": variables or None})
        self._raylets: list[Any] = []
        for _ in range(raylets):
            self.add()

    @property
    def address(self) -> str:
        return self._cluster.address

    def add(self, **variables: str) -> Any:
        """One more raylet; `variables` are its environment's."""
        made = self._cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES,
                                      env_vars=variables or None)
        self._raylets.append(made)
        return made

    def kill(self, ray_node: str) -> None:
        """SIGKILL to the raylet with this id."""
        victim = next(raylet for raylet in self._raylets if raylet.node_id == ray_node)
        self._raylets.remove(victim)
        self._cluster.remove_node(victim, allow_graceful=False)

    def kill_process(self, pid: int) -> None:
        """SIGKILL to the raylet with this pid."""
        self.kill(next(raylet.node_id for raylet in self._raylets
                       if raylet.all_processes["raylet"][0].process.pid == pid))

    def kill_unreaped(self, ray_node: str) -> None:
        """SIGKILL to the raylet with this id, which stays a zombie until the test ends."""
        victim = next(raylet for raylet in self._raylets if raylet.node_id == ray_node)
        os.kill(victim.all_processes["raylet"][0].process.pid, signal.SIGKILL)

    def drain(self, ray_node: str, *, seconds: int) -> None:
        """What `ray drain-node` does for a cloud that takes the host away."""
        ray = str(Path(sys.executable).with_name("ray"))
        subprocess.run(
            [ray, "drain-node", "--address", self.address, "--node-id", ray_node,
             "--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test",
             "--deadline-remaining-seconds", str(seconds)],
            check=True, capture_output=True, timeout=DEADLINE_S)

    def has_raylet(self, ray_node: str) -> bool:
        """Whether it is one of the raylets, and not the head."""
        return ray_node in {raylet.node_id for raylet in self._raylets}

    def kill_host_of(self, actor: Any) -> None:
        """The raylet of an actor; where that is the head, which must live, the actor alone."""
        place = ask(actor, "ray_node")
        if place in {raylet.node_id for raylet in self._raylets}:
            self.kill(place)
        else:
            kill(actor)

    def close(self) -> None:
        self._cluster.shutdown()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`paceline WORDS`, as a user of this cluster types it."""
        return subprocess.run([PACELINE, *words], capture_output=True, text=True, check=False,
                              env=self.environment(), timeout=DEADLINE_S)

    def environment(self) -> dict[str, str]:
        """Of a user's shell."""
        return os.environ | {"RAY_ADDRESS": self.address}


class RayJob:
    """The small training of tests/k8s, on Ray."""

    def __init__(self, cluster: RunsCommands, name: str, directory: Path) -> None:
        self.cluster, self.name, self.directory = cluster, name, directory
        self._pace = directory / "pace"

    def script(self, steps: int) -> list[str]:
        return [str(SCRIPTS / "train.py"), "--checkpoint", str(self.directory / "checkpoints"),
                "--out", str(self.directory), "--steps", str(steps)]

    def submit(self, *flags: str, steps: int) -> None:
        """Slow until `let_go`, so that it does not end before its test has done its part."""
        self.directory.mkdir(exist_ok=True)
        self._pace.write_text("0.1")
        done = self.cluster.run("submit", "--on", "ray", "--name", self.name, *flags,
                                *self.script(steps))
        assert done.returncode == 0, done.stderr

    def let_go(self) -> None:
        part = self._pace.with_suffix(".part")
        part.write_text("0")
        part.replace(self._pace)

    def step(self) -> int:
        try:
            return int((self.directory / "step").read_text())
        except (OSError, ValueError):
            return -1

    def steps(self) -> list[int]:
        """Each step in the order in which rank 0 did it."""
        return [int(line) for line in (self.directory / "steps").read_text().split()]

    def until_step(self, step: int) -> None:
        eventually(lambda: self.step() >= step, f"step {step} of {self.name}")

    def adapter(self) -> Any:
        return eventually(lambda: find_adapter(self.name), "the adapter")

    def status(self) -> dict[str, Any]:
        return ask(self.adapter(), "status")

    def places(self) -> dict[str, str]:
        """The raylet of each node that runs, by the node's name."""
        running = [name for name, words in self.status()["nodes"].items() if words == "runs"]
        actors = ask(self.adapter(), "nodes")
        return dict(zip(running, (ask(one, "ray_node") for one in actors), strict=False))

    def seated(self) -> list[str]:
        """The nodes of the world, without spares; none while no master answers."""
        done = self.cluster.run("status", "--on", f"ray/{self.name}", "--json")
        if done.returncode != 0:
            return []
        return [node["name"] for node in json.loads(done.stdout)["nodes"]
                if node["state"] == "seated"]

    def wait(self) -> int:
        return self.cluster.run("wait", "--on", f"ray/{self.name}").returncode

    def digest(self) -> str:
        return (self.directory / "digest").read_text()


def processes_of(job: RayJob) -> list[str]:
    """Command lines of living processes that belong to the job."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if f"/paceline-{job.name}-" in line or str(job.directory) in line:
                found.append(line)
    return found
