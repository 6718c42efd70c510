"""What the fixture promises: a cluster behaves as a real one, and nothing is left of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from cluster import BUSYBOX, PLACEMENT, Cluster, JsonDict, Pod
from conftest import processes_with

SERVE = "hostname > /tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp"


def web(namespace: str, grace_s: int = 1) -> JsonDict:
    """One web server a node, with its own name as its page, and a service over them."""
    named = {"name": "web", "namespace": namespace}
    container = {"name": "web", "image": BUSYBOX, "command": ["/bin/sh", "-c", SERVE],
                 "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
    template = {"metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": grace_s, "containers": [container]}}
    servers = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": named,
               "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}
    return {"apiVersion": "v1", "kind": "List", "items": [servers, service]}


def started_web(cluster: Cluster, namespace: str) -> dict[str, Pod]:
    """The pod of each node, once all answer."""
    cluster.apply(web(namespace))
    cluster.eventually(lambda: sum(pod.is_ready for pod in cluster.pods("app=web", namespace)) == 3,
                       "three web servers are ready")
    return {pod.node: pod for pod in cluster.pods("app=web", namespace)}


def fetched(cluster: Cluster, pod: Pod, url: str) -> str:
    return cluster.kubectl("exec", "--namespace", pod.namespace, pod.name, "--", "wget", "-q",
                           "-O", "-", url).strip()


def test_pods_reach_each_other_by_address_service_and_name(
        cluster: Cluster, namespace: str) -> None:
    pods = started_web(cluster, namespace)
    first, third = pods["node1"], pods["node3"]
    assert fetched(cluster, first, f"http://{third.address}:8080") == third.name
    names = {pod.name for pod in pods.values()}
    assert fetched(cluster, first, f"http://web.{namespace}") in names
    asked = subprocess.run(cluster.in_network("curl", "-s", f"http://{third.address}:8080"),
                           capture_output=True, text=True, check=False)
    assert asked.stdout.strip() == third.name, "the test's own programs reach pods too"


def test_a_killed_container_is_started_again(cluster: Cluster, namespace: str) -> None:
    before = started_web(cluster, namespace)["node2"]
    cluster.kill_container(before)
    cluster.eventually(lambda: (now := cluster.pod(before.name, namespace)) is not None
                       and now.restart_count == 1 and now.is_ready, "the container is back")


def test_a_node_without_power_is_lost_and_comes_back(cluster: Cluster, namespace: str) -> None:
    started_web(cluster, namespace)
    cluster.power_off("node3")
    cluster.until_not_ready("node3")
    cluster.start("node3")
    cluster.until_placeable("node3")
    cluster.eventually(
        lambda: sum(pod.is_ready for pod in cluster.pods("app=web", namespace)) == 3,
        "the web server of node3 is back")


def test_a_node_without_network_is_lost_and_its_pods_run_on(
        cluster: Cluster, namespace: str) -> None:
    before = started_web(cluster, namespace)["node2"]
    cluster.cut_link("node2")
    cluster.until_not_ready("node2")
    assert cluster.nodes["node2"].container_pid(before.container_id) > 0
    cluster.heal_link("node2")
    cluster.until_placeable("node2")
    again = started_web(cluster, namespace)["node2"]
    assert again.is_ready


def test_pods_go_on_while_the_api_server_is_away(cluster: Cluster, namespace: str) -> None:
    pods = started_web(cluster, namespace)
    cluster.stop_api_server()
    for pod in pods.values():
        asked = subprocess.run(cluster.in_network("curl", "-s", f"http://{pod.address}:8080"),
                               capture_output=True, text=True, check=False)
        assert asked.stdout.strip() == pod.name
    cluster.start_api_server()
    cluster.until_placeable(*cluster.nodes)
    now = {pod.node: pod for pod in cluster.pods("app=web", namespace)}
    assert {pod.uid for pod in now.values()} == {pod.uid for pod in pods.values()}
    assert all(pod.restart_count == 0 for pod in now.values())


def test_fake_nodes_take_the_pods_that_ask_for_them(
        make_cluster: Callable[..., Cluster]) -> None:
    """A cluster of its own, without real nodes: control plane and kwok."""
    container = {"name": "none", "image": "none"}
    template = {"metadata": {"labels": {"app": "many"}},
                "spec": {**PLACEMENT, "containers": [container]}}
    many = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"},
            "spec": {"replicas": 20, "selector": {"matchLabels": {"app": "many"}},
                     "template": template}}
    with make_cluster(node_count=0) as cluster:
        cluster.add_fake_nodes(10)
        cluster.apply(many)
        cluster.eventually(lambda: sum(pod.is_ready for pod in cluster.pods("app=many")) == 20,
                           "twenty pods run, as kwok has it")
        assert all(pod.node.startswith("fake") for pod in cluster.pods("app=many"))


def links() -> set[str]:
    return {entry.name for entry in Path("/sys/class/net").iterdir()}


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def test_nothing_is_left_of_a_cluster(make_cluster: Callable[..., Cluster]) -> None:
    before = links(), mounts()
    with make_cluster(node_count=1) as small:
        node = small.nodes["node1"]
        assert node.cgroups()
        assert processes_with(str(small.directory))
        began = time.monotonic()
    assert time.monotonic() - began < 10, "it ends at once"
    assert (links(), mounts()) == before
    assert not node.cgroups()
    assert not processes_with(str(small.directory))
