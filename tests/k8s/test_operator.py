"""Jobs of the operator in a real cluster: submitted, disturbed and looked at as users do it."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import Cluster, JsonDict
from conftest import processes_with
from elastic import SYSTEM, ElasticJob, leaders_node
from training import STEPS, VENV, set_pace

Undisturbed = Callable[[int], str]
DELETIONS = 30


@pytest.fixture
def job(cluster: Cluster, namespace: str, operator: None, tmp_path: Path) -> ElasticJob:
    return ElasticJob(cluster, namespace, tmp_path / "job", STEPS, pace_s=0.1)


def test_a_submitted_job_trains_to_the_end(job: ElasticJob, undisturbed: Undisturbed) -> None:
    # A busy machine may be silent for longer than the 2 s after which a node is lost.
    job.submit("2", "--env", "PACELINE_TIMERS_LOST_AFTER=15s")
    job.until_beyond(20)
    assert {pod.name for pod in job.pods()} == {"train-master-1", "train-node0-0",
                                                "train-node1-0"}, job.on("events").stdout
    assert job.status()["nodes"] == "2/2"
    assert "how=fork" in job.spawns("train-node0-0"), "the image sets no LANG"
    looked = job.on("status")
    assert looked.returncode == 0, looked.stderr
    assert "trains with 2 nodes" in looked.stdout
    with ThreadPoolExecutor(1) as pool:
        waited = pool.submit(job.on, "wait")
        job.until_complete()
        assert waited.result().returncode == 0, waited.result().stderr
    assert job.digest() == undisturbed(2)


def test_a_job_can_be_read_after_its_end_and_after_its_pods(
        cluster: Cluster, job: ElasticJob) -> None:
    job.submit("2", "--env", "PACELINE_TIMERS_LOST_AFTER=15s")
    job.until_beyond(20)
    job.until_complete()
    assert job.on("wait").returncode == 0
    words = ("status", "why", "events")
    said = {word: job.on(word) for word in words}
    for word in words:
        assert said[word].returncode == 0, said[word].stderr
    assert "finished" in said["status"].stdout
    assert "exit code 0" in said["status"].stdout
    assert f"step {job.status()['step']}" in said["status"].stdout
    assert job.events()[-1]["kind"] == "job_finished"
    assert job.on("logs").returncode == 0
    cluster.kubectl("delete", "pods", "--all", "--namespace", job.namespace, "--wait")
    for word in words:
        assert job.on(word).stdout.split("age")[0] == said[word].stdout.split("age")[0], word
    gone = job.on("logs")
    assert gone.returncode == 3, gone.stdout
    assert "deleted" in gone.stderr
    assert len(job.status()["history"]) <= 16 * 1024


def test_a_deleted_pod_is_replaced_while_the_job_goes_on(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    job.submit("2")
    job.until_beyond(40)
    cluster.kubectl("delete", "pod", "--namespace", job.namespace, "train-node1-0",
                    "--wait=false")
    job.until(lambda: any(pod.name == "train-node1-1" and pod.phase == "Running"
                          for pod in job.pods()), "the next incarnation runs")
    job.until_complete()
    assert job.digest() == undisturbed(2)
    assert job.status()["masterTerm"] == 1
    assert not [pod for pod in job.pods() if pod.name == "train-node0-1"], "its peer was left alone"


# What the others of a leaving node may have (docs/guides/growth.md), and how many steps the world
# without it may then redo: the one that was just done, or all since the last checkpoint.
REDONE = {"each step is in the memory of others": 1,
          "others have copies of a step that is newer than the notice": 20,
          "is newer than the notice": 20}


def seated_leaver(job: ElasticJob) -> str:
    """A seated node of a job of two nodes and a spare, which goes on slowly: on a busy machine it
    would end before the node has left. The notice is so long that copies are there in time."""
    job.grace_s = 120
    job.submit("2", "--spares", "1")
    job.until_beyond(40)
    set_pace(job.storage, 0.5)
    job.until(lambda: job.status()["spares"] == "1/1", "the spare is there")
    return job.seated()[-1]  # any of the three may be the spare


def check_that_it_left(job: ElasticJob, leaver: str, why: str) -> None:
    """The job has steps left, and takes them quickly once the node's next pod runs."""
    job.until(lambda: f"{leaver} left" in job.on("events").stdout, "the node leaves")
    told = job.on("events").stdout
    assert f"{leaver} is taken away by its platform ({why}" in told
    redone = next(steps for reason, steps in REDONE.items() if reason in told)
    job.until(lambda: any(pod.name == f"train-{leaver}-1" and pod.phase == "Running"
                          for pod in job.pods()), "the next incarnation runs")
    assert not {"node_lost", "rank_failed"} & {row["kind"] for row in job.events()}
    job.until_complete()
    assert job.steps_redone() <= redone


def test_a_deleted_pod_leaves_when_others_have_its_steps(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    leaver = seated_leaver(job)
    cluster.kubectl("delete", "pod", "--namespace", job.namespace, f"train-{leaver}-0",
                    "--wait=false")
    check_that_it_left(job, leaver, "SIGTERM)")
    assert job.digest() == undisturbed(2)


TAINT = "ToBeDeletedByClusterAutoscaler"


@pytest.mark.parametrize("is_spare_tainted", [False, True], ids=["alone", "with the spare"])
def test_a_pod_on_a_node_with_a_taint_leaves_when_others_have_its_steps(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed,
        is_spare_tainted: bool) -> None:
    """If both seated nodes were on one Kubernetes node, they would stay until their time is over,
    as the job would be below its minimum. A spare under notice leaves at once, and its next pod is
    the leaver's successor."""
    job.spread = "Honor"
    leaver = seated_leaver(job)
    hosts = {pod.name.split("-")[1]: pod.node for pod in job.node_pods().values()}
    spare = next(name for name in hosts if name not in job.seated())
    tainted = [hosts[leaver], *([hosts[spare]] if is_spare_tainted else [])]
    cluster.kubectl("taint", "node", *tainted, f"{TAINT}=now:NoSchedule")
    try:
        check_that_it_left(job, leaver,
                           f"its Kubernetes node {hosts[leaver]} has the taint {TAINT}")
    finally:
        cluster.kubectl("taint", "node", *tainted, f"{TAINT}-")
    assert job.digest() == undisturbed(2)


def test_thirty_deletions_at_random_do_not_change_the_result(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    """Any pod of the job, the master's among them, with its grace period or without."""
    seed = int(os.environ.get("PACELINE_K8S_SEED", "1"))
    print("PACELINE_K8S_SEED", seed)
    chance = random.Random(seed)
    job.submit("2", "--spares", "1")
    for count in range(DELETIONS):
        job.until_beyond(count * STEPS // (DELETIONS + 1))
        running = sorted(pod.name for pod in job.pods()
                         if pod.phase == "Running" and not pod.is_terminating)
        if not running:
            continue  # all are about to be replaced
        how = chance.choice([(), ("--grace-period=0", "--force")])
        name = chance.choice(running)
        print("deletion", count, "at step", job.step(), name, *how)
        cluster.kubectl("delete", "pod", "--namespace", job.namespace, name, "--wait=false",
                        "--ignore-not-found", *how)
    job.until_complete()
    assert job.digest() == undisturbed(2)


def test_a_suspended_job_saves_its_newest_step(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    job.grace_s = 30
    job.submit("2")
    job.until_beyond(40)
    job.suspend(True)
    job.until(lambda: job.status()["state"] == "Suspended", "no pod is left")
    assert job.status()["memo"], "the next master begins with it"
    stopped_at = job.step()
    job.suspend(False)
    job.until(lambda: job.step() > stopped_at, "it goes on")
    assert "past_remembered" in {row["kind"] for row in job.events()}
    job.until(lambda: int(job.status()["step"]) > stopped_at, "the status follows the new master")
    assert job.steps_redone() <= 1, "the step that was just done"
    job.until_complete()
    assert job.digest() == undisturbed(2)


def test_a_killed_pod_is_named_by_why(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    job.submit("2")
    job.until_beyond(40)
    killed = next(pod for pod in job.pods() if pod.name == "train-node1-0")
    cluster.kill_container(killed)
    # At first the peer's broken connection may be all that the master knows.
    job.until(lambda: "node1" in job.status().get("last", ""), "the status names the killed node")
    why = job.on("why")
    assert why.returncode == 0, why.stderr
    assert "node1" in why.stdout
    job.until_complete()
    assert job.digest() == undisturbed(2)


def test_an_image_that_does_not_start_is_named(job: ElasticJob) -> None:
    job.image = "registry.invalid/none:1"
    job.submit("2")

    def ready() -> JsonDict:
        return next((row for row in job.status().get("conditions", [])
                     if row["type"] == "MasterReady"), {})
    job.until(lambda: "registry.invalid/none:1" in ready().get("message", ""),
              "the status has the kubelet's words")
    assert ready()["status"] == "False"
    assert ready()["reason"] == "MasterWaits"
    assert "registry.invalid/none:1" in job.status()["last"]
    asked = job.on("status")
    assert asked.returncode == 3, asked.stderr
    assert "registry.invalid/none:1" in asked.stderr
    assert {pod.name for pod in job.pods()} == {"train-master-1", "train-node0-0",
                                                "train-node1-0"}, "no pod is replaced"


def test_a_flag_that_paceline_run_lacks_is_named_by_the_condition(job: ElasticJob) -> None:
    job.submit("1", "--run-flag=--node-n=other")
    job.until(lambda: job.status().get("state") == "Failed", "the job is told")
    failed = next(row for row in job.status()["conditions"] if row["type"] == "Failed")
    assert "--node-n" in failed["message"]
    assert "--node-n" in job.status()["last"]
    assert job.on("wait").returncode == 2


def first_pods_alone(job: ElasticJob) -> bool:
    """No node of the job was replaced."""
    return set(job.node_pods()) == {"train-node0-0", "train-node1-0"}


def test_a_deleted_master_has_a_successor_and_no_rank_ends(
        cluster: Cluster, job: ElasticJob, undisturbed: Undisturbed) -> None:
    job.submit("2")
    job.until_beyond(40)
    cluster.kubectl("delete", "pod", "--namespace", job.namespace, "train-master-1",
                    "--wait=false")
    job.until(lambda: job.status().get("masterTerm") == 2, "the next term begins")
    job.until(lambda: "trains with 2 nodes" in job.on("status").stdout, "the world goes on")
    told = job.on("events").stdout
    assert "a node had a copy of the journal" in told
    assert "world 1 has 2 nodes" in told, "the next master knows the past"
    assert "world 1 ended" not in told
    job.until_complete()
    assert job.digest() == undisturbed(2)
    assert first_pods_alone(job)


ONLY_FOR_THE_MASTER = "test.paceline.dev/master"


@pytest.fixture
def masters_node(cluster: Cluster, operator: None) -> Iterator[str]:
    """A node with a taint that keeps all pods away but a master that tolerates it. The operator
    that works is not there, so that only the master is lost with it."""
    needed = leaders_node(cluster)
    name = next(node for node in sorted(cluster.nodes) if node != needed)
    cluster.kubectl("taint", "node", name, f"{ONLY_FOR_THE_MASTER}=only:NoSchedule")
    yield name
    cluster.kubectl("uncordon", name)
    if any(taint["key"] == ONLY_FOR_THE_MASTER
           for taint in cluster.get("node", name)["spec"].get("taints", [])):
        open_to_all(cluster, name)


def open_to_all(cluster: Cluster, node: str) -> None:
    cluster.kubectl("taint", "node", node, f"{ONLY_FOR_THE_MASTER}-")


def submit_apart(masters_node: str, job: ElasticJob) -> None:
    """The master is alone on its Kubernetes node; the job's nodes are on the others. A later master
    may have any place that is open to all."""
    job.master = {"nodeSelector": {"kubernetes.io/hostname": masters_node},
                  "tolerations": [{"key": ONLY_FOR_THE_MASTER, "operator": "Exists"}]}
    job.submit("2")
    job.until(lambda: any(pod.name == "train-master-1" and pod.node == masters_node
                          for pod in job.pods()), "the master has its node")
    job.patch({"master": None})


def test_no_step_is_lost_when_the_masters_node_is_switched_off(
        cluster: Cluster, masters_node: str, job: ElasticJob, undisturbed: Undisturbed) -> None:
    job.pace_s = 0.3
    submit_apart(masters_node, job)
    job.until_beyond(20)
    assert masters_node not in {pod.node for pod in job.node_pods().values()}

    cluster.power_off(masters_node)
    try:
        job.until(lambda: job.status().get("masterTerm") == 2, "the next term begins")
        job.until(lambda: "trains with 2 nodes" in job.on("status").stdout, "the world goes on")
        told = job.on("events").stdout
    finally:
        cluster.start(masters_node)
    assert "a node had a copy of the journal" in told
    assert "world 1 ended" not in told
    cluster.until_placeable(*set(cluster.nodes) - {masters_node})
    job.until_complete()
    assert job.digest() == undisturbed(2)
    assert first_pods_alone(job), "the old master does nothing when its node is back"
    assert job.status()["masterTerm"] == 2


SHORT_CUT_S = 3
LONG_CUT_S = 60


def test_a_cut_link_costs_one_node_at_most_and_leaves_nothing(
        cluster: Cluster, masters_node: str, job: ElasticJob, undisturbed: Undisturbed) -> None:
    """A silent node is lost after two seconds or more (docs/failure-model.md). So a cut of 3 s may
    cost the node, and a cut of 60 s does; no other pod is replaced."""
    job.spread = "Ignore"
    submit_apart(masters_node, job)
    job.until_beyond(20)
    open_to_all(cluster, masters_node)  # for what replaces the node that is cut off
    needed = leaders_node(cluster)
    first = next(pod for pod in job.node_pods().values() if pod.node != needed)
    assert first.node != masters_node
    cut_off(cluster, job, first.node, SHORT_CUT_S)
    after_the_short_one = set(job.node_pods())
    expected = {"train-node0-0", "train-node1-0"}
    if lost_nodes(job):
        assert lost_nodes(job) == [node_of(first.name)]
        expected.add(following(first.name))
    assert after_the_short_one | {first.name} == expected, "a replaced pod is deleted if it lives"

    # Of the pods now, one on a Kubernetes node without the operator and the master.
    second = next(pod for pod in job.node_pods().values()
                  if pod.phase == "Running" and pod.node not in {leaders_node(cluster),
                                                                 masters_node})
    cut_off(cluster, job, second.node, LONG_CUT_S)
    assert lost_nodes(job)[-1] == node_of(second.name)
    assert set(job.node_pods()) <= {*after_the_short_one, following(second.name)}
    job.until(lambda: job.node_pods().get(second.name, first).phase != "Running" or
              second.name not in job.node_pods(), "the pod that was cut off has ended")
    assert "rank_failed" not in {row["kind"] for row in job.events()}, "no rank is blamed"
    job.until_complete()
    assert job.digest() == undisturbed(2)
    assert job.status()["masterTerm"] == 1
    cluster.kubectl("delete", "elasticjob", "train", "--namespace", job.namespace)
    job.until(lambda: not job.pods(), "no pod is left")
    job.until(lambda: not processes_with(str(job.storage)), "no process is left")


def lost_nodes(job: ElasticJob) -> list[str]:
    return [row["node"] for row in job.events() if row["kind"] == "node_lost"]


def node_of(pod: str) -> str:
    return pod.split("-")[1]


def following(pod: str) -> str:
    """The pod of the node's next incarnation."""
    name, incarnation = pod.rsplit("-", 1)
    return f"{name}-{int(incarnation) + 1}"


def cut_off(cluster: Cluster, job: ElasticJob, host: str, cut_s: int) -> None:
    """Cuts the host's link for so long. Meanwhile and afterwards the job goes on in full size; it
    is slow enough not to end before."""
    set_pace(job.storage, 0.5)
    began = time.monotonic()
    cluster.cut_link(host)
    try:
        if cut_s >= LONG_CUT_S:
            job.until(lambda: len(on_others(job, host)) == 2, "a replacement runs elsewhere")
            job.until_beyond(job.step() + 3)
        time.sleep(max(0.0, began + cut_s - time.monotonic()))
    finally:
        cluster.heal_link(host)
        cluster.until_placeable(host)
    job.until_beyond(job.step() + 3)
    job.until(lambda: job.status()["nodes"] == "2/2", "the job has its full size")


def on_others(job: ElasticJob, host: str) -> list[str]:
    return [pod.name for pod in job.node_pods().values()
            if pod.phase == "Running" and pod.node != host]


@pytest.fixture
def broken_host(cluster: Cluster, operator: None) -> Iterator[str]:
    """A node without the operator that works, on which no starter of ranks can begin."""
    needed = leaders_node(cluster)
    name = next(node for node in sorted(cluster.nodes) if node != needed)
    space = cluster.nodes[name].space
    starter = next(VENV.glob("lib/python*/site-packages/paceline/_starter/__main__.py"))
    space.run("tee", "/run/broken.py", stdin="raise SystemExit('no starter on this host')\n")
    space.run("mount", "--bind", "/run/broken.py", str(starter))
    yield name
    space.run("umount", str(starter))
    for node in cluster.nodes:
        cluster.kubectl("uncordon", node)


def test_a_host_that_starts_no_rank_is_excluded(
        cluster: Cluster, broken_host: str, job: ElasticJob) -> None:
    """First the host is the only place for the node's next pod, so that the exclusion shows."""
    job.spread = "Ignore"
    third = next(node for node in cluster.nodes
                 if node not in {broken_host, leaders_node(cluster)})
    cluster.kubectl("cordon", third)
    set_pace(job.storage, 0.5)
    job.submit("1:2")
    job.until(lambda: job.status().get("excludedHosts") == [broken_host], "it is excluded")
    evicted = next(row for row in job.events() if row["kind"] == "node_evicted")
    assert f"its host {broken_host} gets no node of the job any more" in evicted["sentence"]
    after = f"train-{evicted['node']}-1"
    job.until(lambda: any("affinity" in row["reason"] for row in job.status().get("pending", [])),
              "the next pod waits, in the scheduler's words")
    assert job.node_pods()[after].node == ""
    cluster.kubectl("delete", "pod", "--namespace", job.namespace, "train-master-1",
                    "--wait=false")
    job.until(lambda: job.status().get("masterTerm") == 2, "the next term begins")
    job.until(lambda: f"excluded hosts: {broken_host}" in job.on("status").stdout,
              "the next master knows the host")
    cluster.kubectl("uncordon", third)
    job.until(lambda: job.node_pods()[after].node == third, "the pod is placed elsewhere")
    job.until(lambda: job.status()["nodes"] == "2/2", "the job has its full size")
    job.until_complete()
    assert job.status()["excludedHosts"] == [broken_host]


def live_nodes(job: ElasticJob) -> set[str]:
    return {pod.name for pod in job.node_pods().values() if pod.phase == "Running"}


def test_kubectl_and_the_command_scale_a_job(cluster: Cluster, job: ElasticJob) -> None:
    job.submit("1:2", "--env", "PACELINE_TIMERS_LOST_AFTER=15s")
    job.until(lambda: job.status().get("replicas") == 2, "both nodes train")
    job.until(lambda: job.resource()["spec"]["nodes"].get("target") == 2, "the target is filled")
    cluster.kubectl("scale", "elasticjob", "train", "--namespace", job.namespace, "--replicas=1")
    job.until(lambda: job.status()["nodes"] == "1/1" and len(live_nodes(job)) == 1,
              "one node is left")
    chosen = [row["sentence"] for row in job.events() if row["kind"] == "size_chosen"]
    assert chosen == ["the job is to have 1 node: spec.nodes.target of the ElasticJob is 1"]
    scaled = job.on("scale", "--nodes", "2")
    assert scaled.returncode == 0, scaled.stderr
    job.until(lambda: job.resource()["spec"]["nodes"]["target"] == 2, "the target follows")
    job.until(lambda: job.status()["nodes"] == "2/2", "the job grows again")
    assert job.status()["masterTerm"] == 1
    job.until_complete()


def test_the_operator_serves_the_metrics_of_a_job(cluster: Cluster, job: ElasticJob) -> None:
    job.submit("1", "--env", "PACELINE_TIMERS_LOST_AFTER=15s")
    job.until_beyond(5)
    cluster.kubectl("create", "serviceaccount", "reader", "--namespace", job.namespace)
    cluster.kubectl("create", "clusterrolebinding", f"reader-{job.namespace}",
                    "--clusterrole=paceline-metrics-reader",
                    f"--serviceaccount={job.namespace}:reader")
    token = cluster.kubectl("create", "token", "reader", "--namespace", job.namespace).strip()
    address = cluster.get("service", "paceline-operator-metrics", "--namespace",
                          SYSTEM)["spec"]["clusterIP"]

    def scrape() -> str:
        """Of one of the two operators; only the one that works has series of jobs."""
        return subprocess.run(
            cluster.in_network("curl", "-sk", "-H", f"Authorization: Bearer {token}",
                               f"https://{address}:8443/metrics"),
            capture_output=True, text=True, check=False, timeout=60).stdout
    labels = f'{{job="train",namespace="{job.namespace}"}}'
    job.until(lambda: f"paceline_goodput_ratio{labels} 0." in scrape(), "its goodput is served")
    job.until_complete()


def test_a_deleted_job_takes_all_its_pods_along(cluster: Cluster, job: ElasticJob) -> None:
    job.submit("2")
    job.until_beyond(5)
    cluster.kubectl("delete", "elasticjob", "train", "--namespace", job.namespace)
    job.until(lambda: not job.pods(), "no pod is left")
    names = cluster.kubectl("get", "secrets,services", "--namespace", job.namespace,
                            "--output", "name")
    assert "train" not in names
