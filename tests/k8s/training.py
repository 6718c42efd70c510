"""A training job in pods: plain `paceline run` on every node, as a user writes it without an
operator."""

from __future__ import annotations

import json
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path

from cluster import BUSYBOX, Cluster, JsonDict, Pod

ROOT = Path(__file__).resolve().parents[2]
VENV = Path(sys.prefix)
SCRIPTS = Path(__file__).parent / "scripts"
PORT = 29400
STEPS = 250  # of the runs whose digests are compared
# The image has no interpreter. The pods see the one of this host, and what it was linked with.
HOST_FOLDERS = ("/usr", "/lib", "/lib64")


def set_pace(storage: Path, pause_s: float) -> None:
    """The pause after each further step of the job with that storage."""
    part = storage / "pace.part"
    part.write_text(str(pause_s))
    part.replace(storage / "pace")


def host_folders() -> list[str]:
    """Folders of this host that a pod mounts at the same place, read-only."""
    wanted = [*HOST_FOLDERS, str(VENV), str(SCRIPTS), sys.base_prefix]
    return [folder for folder in dict.fromkeys(wanted)
            if Path(folder).exists() and not (folder not in HOST_FOLDERS
                                              and folder.startswith("/usr/"))]


def volume(name: str, source: JsonDict, path: str, read_only: bool = False) -> JsonDict:
    """Both halves of a mount; `mounts_of` and `volumes_of` take them apart."""
    return {"volume": {"name": name, **source},
            "mount": {"name": name, "mountPath": path, "readOnly": read_only}}


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """`storage` stands for a file system that all nodes mount: checkpoints, and what comes out."""

    name: str
    namespace: str
    storage: Path
    node_count: int
    step_count: int
    pace_s: float = 0.02
    run_dir: str = "/tmp/run"  # as new as its container; /run-dir outlives the container
    flags: tuple[str, ...] = ()
    before: str = ""  # shell words that the container runs first
    token: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def selector(self) -> str:
        return f"job-name={self.name}"

    @property
    def endpoint(self) -> str:
        return f"{self.name}-0.{self.name}:{PORT}"

    def command(self) -> str:
        words = ["exec", "paceline", "run", "--nnodes", str(self.node_count),
                 "--nproc-per-node", "1", "--rdzv-endpoint", self.endpoint, "--insecure",
                 "--token-file", "/secret/token", "--run-dir", self.run_dir, *self.flags,
                 str(SCRIPTS / "train.py"), "--checkpoint", str(self.storage / "checkpoint"),
                 "--out", str(self.storage), "--steps", str(self.step_count),
                 "--pace", str(self.pace_s)]
        return f"{self.before} {' '.join(words)}"

    def mounts(self) -> list[JsonDict]:
        host = [volume(f"host{index}", {"hostPath": {"path": folder}}, folder, read_only=True)
                for index, folder in enumerate(host_folders())]
        return [*host,
                volume("storage", {"hostPath": {"path": str(self.storage)}}, str(self.storage)),
                volume("memory", {"emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
                       "/dev/shm"),
                volume("run-dir", {"emptyDir": {}}, "/run-dir"),
                volume("secret", {"secret": {"secretName": self.name, "defaultMode": 0o400}},
                       "/secret", read_only=True)]

    def pod_template(self) -> JsonDict:
        mounts = self.mounts()
        path = f"{VENV}/bin:/usr/local/bin:/usr/bin:/bin"
        return {"spec": {
            "subdomain": self.name,
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 5,
            # One pod a node: a node that is lost takes one rank along.
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"job-name": self.name}}}]}},
            "containers": [{
                "name": "train", "image": BUSYBOX, "command": ["/bin/sh", "-c", self.command()],
                "workingDir": "/tmp",
                "env": [{"name": "PATH", "value": path}, {"name": "HOME", "value": "/tmp"},
                        {"name": "OMP_NUM_THREADS", "value": "1"}],
                "resources": {"requests": {"cpu": "100m", "memory": "600Mi"},
                              "limits": {"memory": "2Gi"}},
                "volumeMounts": [mount["mount"] for mount in mounts]}],
            "volumes": [mount["volume"] for mount in mounts]}}

    @property
    def metadata(self) -> JsonDict:
        return {"name": self.name, "namespace": self.namespace}

    def service(self) -> JsonDict:
        """Gives the pods their names."""
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata, "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": True,
            "selector": {"job-name": self.name}, "ports": [{"port": PORT}]}}

    def manifest(self) -> JsonDict:
        named = self.metadata
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": named,
                  "stringData": {"token": self.token}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {
            "completions": self.node_count, "parallelism": self.node_count,
            "completionMode": "Indexed", "backoffLimit": 10, "template": self.pod_template()}}
        return {"apiVersion": "v1", "kind": "List", "items": [secret, job]}


class RunningJob:
    """A job that was applied, and what a test asks of it and waits for."""

    def __init__(self, cluster: Cluster, job: TrainingJob, is_named: bool = True):
        self.cluster = cluster
        self.job = job
        job.storage.mkdir(parents=True, exist_ok=True)
        if is_named:
            self.publish_names()
        cluster.apply(job.manifest())

    def publish_names(self) -> None:
        self.cluster.apply(self.job.service())

    def pods(self) -> list[Pod]:
        return self.cluster.pods(self.job.selector, self.job.namespace)

    def pod_of(self, index: int) -> Pod | None:
        """The newest pod of that place in the job which is not about to go."""
        prefix = f"{self.job.name}-{index}-"
        return next((pod for pod in self.pods()
                     if pod.name.startswith(prefix) and not pod.is_terminating), None)

    def running(self, index: int) -> Pod:
        self.until(lambda: (pod := self.pod_of(index)) is not None and pod.phase == "Running",
                   f"pod {index} runs")
        pod = self.pod_of(index)
        assert pod is not None
        return pod

    def log(self, index: int) -> str:
        pod = self.pod_of(index)
        return "" if pod is None else self.cluster.log(pod)

    def step(self) -> int:
        """The last step that the ranks have made, or -1."""
        path = self.job.storage / "step"
        return int(path.read_text()) if path.exists() else -1

    def digest(self) -> str:
        return (self.job.storage / "digest").read_text()

    def until(self, ask, what: str, deadline_s: float = 120.0) -> None:
        try:
            self.cluster.eventually(ask, what, deadline_s)
        except RuntimeError as error:
            logs = "\n".join(f"--- {pod.name}\n{self.cluster.log(pod, '--tail=40')}"
                             for pod in self.pods())
            raise AssertionError(f"{error}\n{logs}") from None

    def until_beyond(self, step: int, deadline_s: float = 120.0) -> None:
        self.until(lambda: self.step() > step, f"{self.job.name} is beyond step {step}",
                   deadline_s)

    def until_done(self, deadline_s: float = 180.0) -> None:
        """Every place of the job has a pod that succeeded.

        The job is Complete only when no pod of it is left, and a pod on a node without power stays
        until the node is back. The test has done its part, so the remaining steps have no pauses.
        """
        set_pace(self.job.storage, 0)
        self.until(self._is_done, f"{self.job.name} is done", deadline_s)

    def _is_done(self) -> bool:
        status = json.loads(self.cluster.kubectl(
            "get", "job", self.job.name, "--namespace", self.job.namespace, "-o", "json"))
        conditions = {condition["type"]: condition["status"]
                      for condition in status["status"].get("conditions", [])}
        assert conditions.get("Failed") != "True", self.cluster.story()
        return status["status"].get("succeeded", 0) == self.job.node_count
