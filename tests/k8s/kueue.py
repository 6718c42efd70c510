"""Kueue in a cluster, as its own manifest installs it, and the queue of a namespace."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from cluster import Cluster, JsonDict
from programs import KUEUE, KUEUE_MANIFEST, kueue_folder
from training import ROOT

SYSTEM = "kueue-system"
QUEUE = "team"
GATE = "kueue.x-k8s.io/admission"
LABELS = {"kueue.x-k8s.io/queue-name": QUEUE}
# The API server reaches Kueue's webhooks at their pods, as no kube-proxy is beside it.
API_FLAGS = ("--enable-aggregator-routing=true",)


def install(cluster: Cluster, folder: Path) -> None:
    """Each node gets the image that the manifest names; `folder` is for the image."""
    # Kueue's own API, which shows who waits in a queue, needs certificates that the API server has
    # not here. Without an answer from it no namespace is deleted.
    manifest = "\n---\n".join(part for part in (kueue_folder() / KUEUE_MANIFEST).read_text()
                              .split("\n---\n") if "\nkind: APIService\n" not in part)
    found = re.search(r"image: (\S*kueue\S*)", manifest)
    assert found, "the manifest names no image"
    program, archive = folder / "manager", folder / "kueue.tar"  # it runs /manager
    program.symlink_to(kueue_folder() / KUEUE.name)
    subprocess.run([str(ROOT / "deploy/kubernetes/operator/image.py"), str(program),
                    found[1], str(archive)], check=True)
    cluster.import_image(archive)
    manifest = manifest.replace("imagePullPolicy: Always", "imagePullPolicy: Never")
    cluster.kubectl("apply", "--server-side", "--filename", "-", stdin=manifest)
    cluster.kubectl("rollout", "status", "deployment/kueue-controller-manager", "--namespace",
                    SYSTEM, "--timeout", "120s", timeout_s=130)


def make_queue(cluster: Cluster, namespace: str, pods: int) -> None:
    """A queue with room for so many pods. Webhooks may be known to the API server a moment late."""
    def named(kind: str, spec: JsonDict, **where: str) -> JsonDict:
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
                "metadata": {"name": QUEUE, **where}, "spec": spec}
    quota = {"cpu": "100", "memory": "1000Gi", "pods": pods}
    items = [
        named("ResourceFlavor", {}),
        named("ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [{
            "coveredResources": list(quota), "flavors": [{"name": QUEUE, "resources": [
                {"name": name, "nominalQuota": value} for name, value in quota.items()]}]}]}),
        named("LocalQueue", {"clusterQueue": QUEUE}, namespace=namespace)]
    cluster.eventually(lambda: is_applied(cluster, items), "the queue is there")


def is_applied(cluster: Cluster, items: list[JsonDict]) -> bool:
    done = subprocess.run(
        cluster.kubectl_command("apply", "--server-side", "--filename", "-"), text=True,
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        capture_output=True, check=False)
    return done.returncode == 0


def set_room(cluster: Cluster, pods: int) -> None:
    place = "/spec/resourceGroups/0/flavors/0/resources/2/nominalQuota"
    cluster.kubectl("patch", "clusterqueue", QUEUE, "--type", "json", "--patch", json.dumps(
        [{"op": "replace", "path": place, "value": str(pods)}]))


def pods_counted(cluster: Cluster) -> int:
    """The pods for which the queue has given room now."""
    used = cluster.get("clusterqueue", QUEUE)["status"].get("flavorsUsage", [])
    return sum(int(resource["total"]) for flavor in used for resource in flavor["resources"]
               if resource["name"] == "pods")


def why_not(cluster: Cluster, namespace: str) -> str:
    """What Kueue says of the workloads that have no room."""
    workloads = cluster.get("workloads.kueue.x-k8s.io", "--namespace", namespace)["items"]
    return "\n".join(
        row["message"] for workload in workloads
        for row in workload.get("status", {}).get("conditions", [])
        if row["type"] == "QuotaReserved" and row["status"] == "False")
