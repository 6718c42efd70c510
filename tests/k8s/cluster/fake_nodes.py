"""Many nodes that are objects only: kwok says of their pods that they run, and nothing does.

They serve questions of number, such as what an operator costs with a hundred pods. Only pods that
ask for them are placed there: `PLACEMENT` goes into the pod's spec.
"""

from __future__ import annotations

from typing import Any

from .keys import Keys
from .options import Options
from .space import Space

LABEL = {"paceline.test/fake": "true"}
PLACEMENT: dict[str, Any] = {
    "nodeSelector": LABEL,
    "tolerations": [{"key": "paceline.test/fake", "operator": "Exists"}]}
MANAGED = {"kwok.x-k8s.io/node": "fake"}
LEASE_S = 40
SIZE = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}


def fake_node(index: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": f"fake{index}", "labels": LABEL, "annotations": MANAGED},
        # Keeps away what does not ask for it, as the name servers.
        "spec": {"taints": [{"key": "paceline.test/fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": SIZE, "capacity": SIZE}}


def start_kwok(hub: Space, keys: Keys, options: Options) -> None:
    selector = ",".join(f"{name}={value}" for name, value in MANAGED.items())
    hub.start("kwok", [
        options.program("kwok"), "--kubeconfig", keys.path("admin.kubeconfig"),
        "--manage-all-nodes=false", f"--manage-nodes-with-annotation-selector={selector}",
        f"--node-lease-duration-seconds={LEASE_S}", "--server-address", "127.0.0.1:10247",
        "--config", options.program("kwok-stages.yaml")])
