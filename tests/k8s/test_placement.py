"""Where the scheduler places the nodes of jobs whose templates say nothing about it."""

from __future__ import annotations

from cluster import Cluster, JsonDict

JOBS = 20
NODES = 3  # as many as there are hosts: two on one host leave another one without


def job(namespace: str, name: str) -> JsonDict:
    """A small job whose containers never start, because no host has the image. By then its pods are
    placed."""
    small = {"requests": {"cpu": "5m", "memory": "8Mi"}}
    container = {"name": "train", "image": "registry.invalid/none:1", "imagePullPolicy": "Never",
                 "resources": small}
    return {"apiVersion": "paceline.dev/v1alpha1", "kind": "ElasticJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"nodes": {"min": NODES, "max": NODES}, "script": {"file": "train.py"},
                     "master": {"resources": small},
                     "template": {"spec": {"terminationGracePeriodSeconds": 1,
                                           "containers": [container]}}}}


def places(cluster: Cluster, namespace: str) -> dict[str, list[str]]:
    """The Kubernetes nodes of each job's nodes, as far as they are placed."""
    found: dict[str, list[str]] = {}
    listed = cluster.get("pods", "--namespace", namespace, "--selector", "paceline.dev/role=node")
    for pod in listed["items"]:
        if host := pod["spec"].get("nodeName"):
            found.setdefault(pod["metadata"]["labels"]["paceline.dev/job"], []).append(host)
    return found


def until_placed(cluster: Cluster, namespace: str, *names: str) -> dict[str, list[str]]:
    cluster.eventually(lambda: all(len(places(cluster, namespace).get(name, [])) == NODES
                                   for name in names), f"all nodes of {len(names)} jobs are placed")
    return places(cluster, namespace)


def test_nodes_of_each_job_are_apart_and_share_a_host_without_room(
        cluster: Cluster, namespace: str, operator: None) -> None:
    assert len(cluster.nodes) == NODES
    names = [f"job{index}" for index in range(JOBS)]
    cluster.apply({"apiVersion": "v1", "kind": "List",
                   "items": [job(namespace, name) for name in names]})
    hosts = until_placed(cluster, namespace, *names)
    shared = {name: hosts[name] for name in names if len(set(hosts[name])) < NODES}
    print(f"{JOBS - len(shared)} of {JOBS} jobs have each node on a host of its own")
    assert not shared

    only, *others = sorted(cluster.nodes)
    cluster.kubectl("cordon", *others)
    try:
        cluster.apply(job(namespace, "crowded"))
        assert until_placed(cluster, namespace, "crowded")["crowded"] == [only] * NODES
    finally:
        cluster.kubectl("uncordon", *others)
