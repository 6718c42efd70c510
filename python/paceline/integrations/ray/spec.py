"""What a job on Ray is: `JobSpec`, and the command lines of its master and nodes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from paceline.integrations.ray.decide import NodeId

# How long a node has from the request to leave until its processes are killed, in seconds.
GRACE_SECONDS = 15


@dataclass(frozen=True)
class JobSpec:
    """The submission: `paceline submit --on ray` writes it as JSON."""

    name: str
    nodes_min: int = 1
    nodes_max: int = 1
    spares: int = 0
    nproc_per_node: int = 0
    """Ranks of a node; 0: its GPUs, else 1."""
    resources: dict[str, float] = field(default_factory=dict)
    """What Ray reserves for a node: `CPU`, `GPU`, `memory` in bytes, and the user's own."""
    environment: dict[str, str] = field(default_factory=dict)
    target: str = ""
    is_module: bool = False
    args: tuple[str, ...] = ()
    run_flags: tuple[str, ...] = ()
    runtime_env: dict[str, Any] = field(default_factory=dict)
    """Ray's own: where its nodes find the working directory."""

    @property
    def ranks(self) -> int:
        return self.nproc_per_node or max(1, int(self.resources.get("GPU", 0)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        fields = json.loads(text)
        return cls(**fields | {"args": tuple(fields["args"]),
                               "run_flags": tuple(fields["run_flags"])})


def master_line(spec: JobSpec, credentials: str, run_dir: str, port: int) -> list[str]:
    """The words behind `paceline` of a master that listens at `port` of all addresses."""
    return ["run", "--credentials", credentials, "--rdzv-endpoint", f"0.0.0.0:{port}",
            "--local-nodes", "0", "--nnodes", f"{spec.nodes_min}:{spec.nodes_max}",
            "--spares", str(spec.spares), "--name", spec.name, *_tail(spec, run_dir)]


def node_line(spec: JobSpec, node: NodeId, credentials: str, run_dir: str, *,
              port: int, own_address: str) -> list[str]:
    """The words of a node whose forwarder to the master listens at `port` of loopback."""
    return ["run", "--credentials", credentials, "--rdzv-endpoint", f"127.0.0.1:{port}",
            "--node-name", node.name, "--incarnation", str(node.incarnation),
            "--local-addr", own_address, *_tail(spec, run_dir)]


def _tail(spec: JobSpec, run_dir: str) -> list[str]:
    script = ["--module", spec.target] if spec.is_module else [spec.target]
    return ["--nproc-per-node", str(spec.ranks), "--run-dir", run_dir, *spec.run_flags, *script,
            *spec.args]
