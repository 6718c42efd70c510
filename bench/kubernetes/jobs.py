"""In a real cluster of three nodes: how much does a job cost beside a bare pod, and a lost pod?

    make k8s-binaries operator-image
    .venv/bin/python -m bench.kubernetes.jobs --rounds 5         # as root, about a minute each

`first step`: from the start of `kubectl apply` to the script's first step, of a bare pod that runs
the script with one rank, and of an ElasticJob with one node and one rank. `pod killed`: from
SIGKILL of all processes of a pod in the world, with a spare there, to the next step of the next
world. One more step may end after the kill, so the second one is taken. `node_loss.py` asks the
same question without Kubernetes.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import BENCH, Samples, machine, parser

TESTS = BENCH.parent / "tests" / "k8s"
sys.path[:0] = [str(TESTS), str(TESTS / "binaries")]

from cluster import Cluster, JsonDict, Options  # noqa: E402
from elastic import ElasticJob, install  # noqa: E402
from programs import program_folder  # noqa: E402
from training import SCRIPTS  # noqa: E402

WITHIN_S = 180.0


def poll(ask: Callable[[], bool], since: float) -> float | None:
    """Seconds from `since` until it is true."""
    while time.monotonic() - since < WITHIN_S:
        if ask():
            return time.monotonic() - since
        time.sleep(0.005)
    return None


def lines(storage: Path) -> int:
    path = storage / "steps"
    return path.read_text().count("\n") if path.exists() else 0


class Bench:
    def __init__(self, cluster: Cluster, samples: Samples, folder: Path):
        self.cluster, self.samples, self.folder = cluster, samples, folder
        self.count = 0

    def job(self) -> ElasticJob:
        """Each sample has a namespace of its own."""
        self.count += 1
        name = f"round{self.count}"
        self.cluster.kubectl("create", "namespace", name)
        job = ElasticJob(self.cluster, name, self.folder / name, steps=100_000, pace_s=0.02)
        job.grace_s = 1
        return job

    def end(self, job: ElasticJob) -> None:
        self.cluster.kubectl("delete", "elasticjobs,pods", "--all", "--namespace", job.namespace)

    def first_step(self, name: str, manifest: JsonDict, job: ElasticJob) -> None:
        since = time.monotonic()
        self.cluster.apply(manifest)
        self.samples.add(name, poll(lambda: lines(job.storage) > 0, since))
        self.end(job)

    def bare_pod(self) -> None:
        job = self.job()
        pod = job.pod()
        container = pod["spec"]["containers"][0]
        container["command"] = ["python", *self.script(job)]
        container["env"] += [{"name": key, "value": value} for key, value in
                             (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"),
                              ("MASTER_PORT", "29500"))]
        pod["metadata"] = {"name": "bare", "namespace": job.namespace}
        self.first_step("first step, bare pod", pod, job)

    def elastic_job(self) -> None:
        job = self.job()
        file, *args = self.script(job)
        self.first_step("first step, ElasticJob", {
            "apiVersion": "paceline.dev/v1alpha1", "kind": "ElasticJob",
            "metadata": {"name": "train", "namespace": job.namespace},
            "spec": {"nodes": {"min": 1, "max": 1}, "script": {"file": file, "args": args},
                     "template": {"spec": job.pod()["spec"]}}}, job)

    def script(self, job: ElasticJob) -> list[str]:
        return [str(SCRIPTS / "train.py"), "--checkpoint", str(job.storage / "checkpoint"), "--out",
                str(job.storage), "--steps", str(job.steps), "--pace", str(job.pace_s)]

    def pod_killed(self) -> None:
        job = self.job()
        job.submit("2", "--spares", "1")
        job.until_beyond(100)
        job.until(lambda: job.status()["spares"] == "1/1", "the spare is there")
        name = job.seated()[-1]
        # A busy machine may have lost its first incarnation.
        killed = next(pod for pod in job.pods()
                      if pod.name.startswith(f"train-{name}-") and pod.phase == "Running")
        since = time.monotonic()
        self.cluster.kill_container(killed)
        before = lines(job.storage)
        self.samples.add("pod killed", poll(lambda: lines(job.storage) >= before + 2, since))
        self.end(job)


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--rounds", type=int, default=5)
    args = made.parse_args()
    print(json.dumps(machine()), file=sys.stderr)
    samples = Samples("kubernetes_jobs")
    with tempfile.TemporaryDirectory(prefix="paceline-bench-k8s-") as made_folder:
        folder = Path(made_folder)
        options = Options(binaries=program_folder())
        with Cluster(folder / f"paceline-k8s-bench-{folder.name[-8:]}", options) as cluster:
            install(cluster)
            bench = Bench(cluster, samples, folder)
            measures = {"first step, bare pod": bench.bare_pod,
                        "first step, ElasticJob": bench.elastic_job, "pod killed": bench.pod_killed}
            for _ in range(args.rounds):
                for name, measure in measures.items():
                    if args.systems in name:
                        measure()
    print(samples.summary("first step, bare pod", "first step, ElasticJob"))
    print(samples.summary("pod killed"))


if __name__ == "__main__":
    main()
