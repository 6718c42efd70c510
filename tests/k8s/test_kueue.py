"""Jobs in a queue of Kueue: admitted whole, and their room given back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import kueue
import pytest
from cluster import Cluster, JsonDict
from elastic import ElasticJob, install
from programs import has_kueue

STEPS = 5000  # the test ends the job
NODES = 3
WHOLE = 1 + NODES  # with the master


@pytest.fixture(scope="module")
def queueing(make_cluster: Callable[..., Cluster],
             tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, because Kueue's webhooks see each pod."""
    if not has_kueue():
        pytest.skip("KUEUE NOT TESTED: it is not built: `make k8s-binaries KUEUE=1`")
    with make_cluster(node_count=2, api_flags=kueue.API_FLAGS) as cluster:
        install(cluster)
        kueue.install(cluster, tmp_path_factory.mktemp("kueue"))
        yield cluster


@pytest.fixture
def job(queueing: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ElasticJob]:
    words = re.findall(r"[a-z0-9]+", request.node.name.removeprefix("test_").lower())
    namespace = "-".join(words)[-60:].strip("-")
    queueing.kubectl("create", "namespace", namespace)
    made = ElasticJob(queueing, namespace, tmp_path / "job", STEPS, pace_s=0.1)
    made.labels = kueue.LABELS
    yield made
    queueing.kubectl("delete", "elasticjob", "--all", "--namespace", namespace, "--wait=false")
    queueing.eventually(lambda: not made.pods(), "Kueue lets the pods go")
    queueing.eventually(lambda: kueue.pods_counted(queueing) == 0, "the queue has all its room")
    queueing.kubectl("delete", "clusterqueue", kueue.QUEUE)


def gated(job: ElasticJob) -> set[str]:
    listed = job.cluster.get("pods", "--namespace", job.namespace)["items"]
    return {pod["metadata"]["name"] for pod in listed
            if {"name": kueue.GATE} in pod["spec"].get("schedulingGates", [])}


def started(job: ElasticJob) -> bool:
    return any(pod.phase != "Pending" or pod.node for pod in job.pods())


FIRST = {"train-master-1", *(f"train-node{index}-0" for index in range(NODES))}


def test_a_job_is_admitted_whole(queueing: Cluster, job: ElasticJob) -> None:
    kueue.make_queue(queueing, job.namespace, WHOLE - 1)
    job.submit(str(NODES))
    job.until(lambda: "insufficient" in kueue.why_not(queueing, job.namespace),
              "Kueue says that there is no room")
    assert gated(job) == FIRST
    assert not started(job)
    waits = job.on("status")
    assert waits.returncode == 3, waits.stdout
    assert "SchedulingGated" in waits.stderr, waits.stderr
    kueue.set_room(queueing, WHOLE)
    job.until_beyond(5)
    assert not gated(job)
    assert kueue.pods_counted(queueing) == WHOLE


def condition(job: ElasticJob, kind: str) -> JsonDict:
    return next((row for row in job.status().get("conditions", []) if row["type"] == kind), {})


def test_a_suspended_job_gives_its_room_back_and_gets_it_again(
        queueing: Cluster, job: ElasticJob) -> None:
    kueue.make_queue(queueing, job.namespace, WHOLE)
    job.submit(str(NODES))
    job.until_beyond(5)
    job.suspend(True)
    job.until(lambda: job.status()["state"] == "Suspended", "no pod runs")
    job.until(lambda: kueue.pods_counted(queueing) == 0, "the room is free")
    job.until(lambda: not any(pod.is_terminating for pod in job.pods()), "Kueue lets the pods go")
    assert job.status()["nodes"] == f"0/{NODES}"
    step = job.step()
    job.suspend(False)
    job.until_beyond(step + 3)
    assert kueue.pods_counted(queueing) == WHOLE


def test_a_node_of_a_full_queue_is_replaced(queueing: Cluster, job: ElasticJob) -> None:
    """Kueue deletes a pod that is one too many for its role, so the next pod waits for the end of
    the one before."""
    job.grace_s = 20
    kueue.make_queue(queueing, job.namespace, WHOLE)
    job.submit(str(NODES))
    job.until_beyond(5)
    for pod in ("train-node1-0", "train-master-1"):
        queueing.kubectl("delete", "pod", "--namespace", job.namespace, pod, "--wait=false")
    job.until(lambda: {"train-node1-1", "train-master-2"} <=
              {pod.name for pod in job.pods() if pod.phase == "Running"}, "both are replaced")
    job.until(lambda: job.status()["nodes"] == f"{NODES}/{NODES}", "the job has its full size")
    job.until_beyond(job.step() + 3)
    assert "train-node1-2" not in job.node_pods()
    assert kueue.pods_counted(queueing) == WHOLE


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_job_that_has_ended_gives_its_room_back(
        queueing: Cluster, job: ElasticJob, end: str) -> None:
    kueue.make_queue(queueing, job.namespace, WHOLE)
    if end == "Complete":
        job.steps = 20
    job.submit(str(NODES))
    job.until_beyond(5)
    if end == "Failed":
        job.on("stop")
    job.until(lambda: condition(job, end).get("status") == "True", "the job has ended")
    job.until(lambda: kueue.pods_counted(queueing) == 0, "the room is free")
    assert {pod.name for pod in job.pods()} == FIRST, "their logs stay"


def test_an_evicted_job_goes_on_when_it_is_admitted_again(
        queueing: Cluster, job: ElasticJob) -> None:
    """As when a job of more priority takes the room: Kueue deletes all pods of the group."""
    def hold(policy: str) -> None:
        queueing.kubectl("patch", "clusterqueue", kueue.QUEUE, "--type", "merge", "--patch",
                         json.dumps({"spec": {"stopPolicy": policy}}))
    kueue.make_queue(queueing, job.namespace, WHOLE)
    job.submit(str(NODES))
    job.until_beyond(5)
    hold("HoldAndDrain")
    job.until(lambda: kueue.pods_counted(queueing) == 0, "the room is free")
    job.until(lambda: len(gated(job)) == WHOLE, "all of the job waits")
    job.until(lambda: job.status()["state"] == "Waiting", "the status says so")
    step = job.step()
    hold("None")
    job.until_beyond(step + 3)
    assert kueue.pods_counted(queueing) == WHOLE
