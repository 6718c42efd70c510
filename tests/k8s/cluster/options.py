"""What a test may choose about a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """Times are short, so that a lost node shows within seconds.

    Kubernetes' own are: lease 40 s, grace 50 s, status 10 s, monitor 5 s, evict after 300 s.
    """

    binaries: Path
    node_count: int = 3
    node_lease_s: int = 4
    node_status: str = "2s"  # how often a kubelet renews its lease and reports
    node_grace: str = "5s"  # silence after which a node is NotReady
    node_monitor: str = "1s"
    evict_after_s: int = 5  # of pods on such a node, where they tolerate nothing else
    api_flags: tuple[str, ...] = ()

    def program(self, name: str) -> str:
        return str(self.binaries / name)
