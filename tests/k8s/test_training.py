"""Plain `paceline run` in the pods of a Job, without an operator, and what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from cluster import Cluster
from training import STEPS, RunningJob

Train = Callable[..., RunningJob]
JOB = re.compile(r"job (train-\w+)")  # in the line with which `paceline run` begins


def test_three_pods_train_to_the_end(train: Train, undisturbed: Callable[[int], str]) -> None:
    job = train(node_count=3, step_count=STEPS)
    job.until_done()
    assert job.digest() == undisturbed(3)
    assert {pod.node for pod in job.pods()} == {"node1", "node2", "node3"}
    assert all(pod.exit_code == 0 and pod.restart_count == 0 for pod in job.pods())


def test_a_deleted_pod_comes_back_into_its_place(
        cluster: Cluster, train: Train, undisturbed: Callable[[int], str]) -> None:
    job = train(node_count=3, step_count=STEPS, pace_s=0.1)
    job.until_beyond(40)
    lost = job.running(1)
    cluster.kubectl("delete", "pod", "--namespace", lost.namespace, lost.name)
    job.until_done()
    assert job.digest() == undisturbed(3)


def test_a_deleted_pod_of_the_master_comes_back_as_the_master(
        cluster: Cluster, train: Train, undisturbed: Callable[[int], str]) -> None:
    """For a moment its name leads to two pods, or to the one that ends."""
    job = train(node_count=2, step_count=STEPS, pace_s=0.1)
    job.until_beyond(40)
    lost = job.running(0)
    before = job.step()
    cluster.kubectl("delete", "pod", "--namespace", lost.namespace, lost.name)
    job.until_beyond(before, deadline_s=90)
    job.until_done()
    assert job.digest() == undisturbed(2)


def test_a_job_outlives_the_power_of_a_node(
        cluster: Cluster, train: Train, undisturbed: Callable[[int], str]) -> None:
    job = train(node_count=2, step_count=STEPS, pace_s=0.1)
    job.until_beyond(40)
    node = job.running(1).node
    cluster.power_off(node)
    try:
        job.until_done()
    finally:
        cluster.start(node)
        cluster.until_placeable(node)
    assert job.digest() == undisturbed(2)


def test_names_that_are_published_late_are_waited_for(train: Train) -> None:
    """Names of pods come from a service, which may be applied after them."""
    job = train(is_named=False, node_count=2, step_count=20)
    for index in range(2):
        job.until(lambda index=index: "waiting for the host name train-0.train" in job.log(index),
                  f"pod {index} says that it waits")
    job.publish_names()
    job.until_done()
    assert all(pod.restart_count == 0 for pod in job.pods())


# What a user writes today, where the run directory outlives the container: PL-E020 otherwise.
RUN_DIR = "/run-dir/r"
RESUMES = (f"[ -e {RUN_DIR}/job.json ] && "
           f"exec paceline run --resume --insecure --run-dir {RUN_DIR};")


@pytest.mark.parametrize("index", [0, 1])
def test_a_restarted_container_goes_on_with_its_run_directory(
        cluster: Cluster, train: Train, undisturbed: Callable[[int], str], index: int) -> None:
    """As the same node of the same job, whether its container had the master or not."""
    job = train(node_count=2, step_count=STEPS, pace_s=0.1, run_dir=RUN_DIR, before=RESUMES)
    job.until_beyond(40)
    other = 1 - index
    names = set(JOB.findall(job.log(other)))
    cluster.kill_container(job.running(index))
    job.until_done()
    assert {found for i in range(2) for found in JOB.findall(job.log(i))} == names
    restarts = {pod.name.split("-")[1]: pod.restart_count for pod in job.pods()}
    assert restarts == {str(index): 1, str(other): 0}
    assert job.digest() == undisturbed(2)


def test_the_pods_of_a_lost_master_join_its_next_job(
        cluster: Cluster, train: Train, undisturbed: Callable[[int], str]) -> None:
    """The master's run directory is gone with its container, so that a new job begins. Its first
    world has a lower number than the last one of the old job, whose pod 1 goes on."""
    job = train(node_count=2, step_count=STEPS, pace_s=0.1)
    job.until_beyond(20)
    cluster.kill_container(job.running(1))
    job.until(lambda: "world 2 trains" in job.log(0), "the second world trains")
    before = job.step()
    cluster.kill_container(job.running(0))
    job.until_beyond(before, deadline_s=100)
    job.until_done()
    assert job.digest() == undisturbed(2)
