"""The operator in a cluster, and jobs that `paceline submit` gives it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from cluster import BUSYBOX, Cluster, JsonDict, Pod
from programs import user_cache
from training import ROOT, SCRIPTS, VENV, TrainingJob, set_pace

SYSTEM = "paceline-system"
IMAGE = "registry.invalid/paceline-operator:none"
INSTALL = ROOT / "deploy/kubernetes/install.yaml"
OPERATOR_IMAGE = ROOT / "build/operator/image.tar"
DEADLINE_S = 180.0


def install(cluster: Cluster) -> None:
    """What the guide says; each node of the cluster gets the image that install.yaml names."""
    # With Go's cache of the user. In that of the tests, all of Kubernetes' client is compiled anew.
    subprocess.run(["make", "--no-print-directory", "-C", str(ROOT), "operator-image",
                    f"IMAGE={IMAGE}"], check=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(user_cache())})
    cluster.import_image(OPERATOR_IMAGE)
    cluster.apply(INSTALL.read_text())
    cluster.kubectl("rollout", "status", "deployment/paceline-operator", "--namespace", SYSTEM,
                    "--timeout", "60s")


def leaders_node(cluster: Cluster) -> str:
    """The Kubernetes node of the operator that works: its pod's name begins the Lease's holder.
    The other operator waits, and may be lost with its node."""
    found: list[str] = []

    def ask() -> bool:
        said = cluster.kubectl("get", "lease", "paceline-operator", "--namespace", SYSTEM,
                               "--ignore-not-found", "--output", "json")
        lease = json.loads(said or "{}")
        holder = lease.get("spec", {}).get("holderIdentity") or ""
        found[:] = [pod.node for pod in cluster.pods(namespace=SYSTEM)
                    if holder.startswith(f"{pod.name}_") and pod.is_ready]
        return bool(found)
    cluster.eventually(ask, "an operator holds the Lease")
    return found[0]


def spread_by(taints: str) -> JsonDict:
    """One node of the job on each Kubernetes node. "Honor" leaves out those that take no pods, and
    "Ignore" does not. An affinity between pods would also keep the nodes from where the master is,
    as its pod has the same template."""
    return {"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "nodeTaintsPolicy": taints,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"paceline.dev/role": "node"}}}]}


class ElasticJob:
    """One job, as its user sees it."""

    def __init__(self, cluster: Cluster, namespace: str, storage: Path, steps: int,
                 pace_s: float = 0.02):
        self.cluster = cluster
        self.namespace = namespace
        self.storage = storage
        self.steps = steps
        self.pace_s = pace_s
        self.grace_s = 5
        self.image = BUSYBOX
        self.spread = ""  # see `spread_by`
        # spec.master and labels, which no flag of `submit` sets
        self.master: JsonDict = {}
        self.labels: dict[str, str] = {}
        storage.mkdir()
        self.template = storage.with_suffix(".json")

    def pod(self) -> JsonDict:
        """A pod of the user's own: it mounts this host's interpreter, as no image has it."""
        plain = TrainingJob(name="train", namespace=self.namespace, storage=self.storage,
                            node_count=1, step_count=1)
        spec = plain.pod_template()["spec"]
        container = spec["containers"][0]
        without = {"memory", "run-dir", "secret"}  # the operator's affair
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "template"}, "spec": {
            "terminationGracePeriodSeconds": self.grace_s,
            "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
            **(spread_by(self.spread) if self.spread else {}),
            "containers": [{
                "name": "train", "image": self.image,
                **{key: container[key] for key in ("env", "resources", "workingDir")},
                "volumeMounts": [mount for mount in container["volumeMounts"]
                                 if mount["name"] not in without]}],
            "volumes": [volume for volume in spec["volumes"] if volume["name"] not in without]}}

    def paceline(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that the user types on a host that has kubectl."""
        programs = Path(self.cluster.options.program("kubectl")).parent
        env = {**os.environ, "KUBECONFIG": self.cluster.kubeconfig,
               "PATH": f"{programs}:{os.environ['PATH']}"}
        return subprocess.run(self.cluster.in_network(str(VENV / "bin/paceline"), *words), env=env,
                              capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    def submit(self, nodes: str, *flags: str) -> None:
        self.template.write_text(json.dumps(self.pod()))
        more = {**({"spec": {"master": self.master}} if self.master else {}),
                **({"metadata": {"labels": self.labels}} if self.labels else {})}
        done = self.paceline(
            "submit", "--on", f"kubernetes/{self.namespace}", "--template", str(self.template),
            "--name", "train", "--nodes", nodes, *(["--print"] if more else []), *flags,
            str(SCRIPTS / "train.py"),
            "--checkpoint", str(self.storage / "checkpoint"), "--out", str(self.storage),
            "--steps", str(self.steps), "--pace", str(self.pace_s))
        assert done.returncode == 0, done.stderr
        if more:
            self.cluster.apply(self.cluster.kubectl(
                "patch", "--local", "--filename", "-", "--output", "json", "--type", "merge",
                "--patch", json.dumps(more), stdin=done.stdout))

    def on(self, command: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.paceline(command, "--on", f"kubernetes/{self.namespace}/train", *flags)

    def events(self) -> list[JsonDict]:
        told = self.on("events", "--output", "jsonl")
        assert told.returncode == 0, told.stderr
        return [json.loads(line) for line in told.stdout.splitlines()]

    def seated(self) -> list[str]:
        """The nodes of the present world, by seat."""
        told = self.on("status", "--json")
        assert told.returncode == 0, told.stderr
        nodes = [node for node in json.loads(told.stdout)["nodes"] if node["state"] == "seated"]
        return [node["name"] for node in sorted(nodes, key=lambda node: node["seat"])]

    def resource(self) -> JsonDict:
        return self.cluster.get("elasticjob", "train", "--namespace", self.namespace)

    def status(self) -> JsonDict:
        return self.resource().get("status", {})

    def pods(self) -> list[Pod]:
        return [pod for pod in self.cluster.pods(namespace=self.namespace)
                if pod.name.startswith("train-")]

    def node_pods(self) -> dict[str, Pod]:
        """Of all incarnations, ended ones too."""
        return {pod.name: pod for pod in self.pods() if "-node" in pod.name}

    def spawns(self, pod: str) -> str:
        """The lines of the agent's log that say how each rank of the pod was started."""
        return self.cluster.kubectl("exec", pod, "--namespace", self.namespace, "--", "sh", "-c",
                                    "grep -h rank_spawned /tmp/paceline/run/logs/*/agent.log")

    def step(self) -> int:
        path = self.storage / "step"
        return int(path.read_text()) if path.exists() else -1

    def patch(self, spec: JsonDict) -> None:
        self.cluster.kubectl("patch", "elasticjob", "train", "--namespace", self.namespace,
                             "--type", "merge", "--patch", json.dumps({"spec": spec}))

    def suspend(self, is_suspended: bool) -> None:
        self.patch({"suspend": is_suspended})

    def steps_redone(self) -> int:
        steps = (self.storage / "steps").read_text().split()
        return len(steps) - len(set(steps))

    def digest(self) -> str:
        return (self.storage / "digest").read_text()

    def until(self, ask, what: str, deadline_s: float = DEADLINE_S) -> None:
        try:
            self.cluster.eventually(ask, what, deadline_s)
        except RuntimeError as error:
            logs = "\n".join(f"--- {pod.name} {pod.phase}\n{self.cluster.log(pod, '--tail=30')}"
                             for pod in self.pods())
            raise AssertionError(f"{error}\n{json.dumps(self.status(), indent=1)}\n{logs}"
                                 ) from None

    def until_beyond(self, step: int) -> None:
        self.until(lambda: self.step() > step, f"the job is beyond step {step}")

    def until_complete(self) -> None:
        """The test has done its part, so the remaining steps have no pauses."""
        set_pace(self.storage, 0)

        def ask() -> bool:
            state = {row["type"]: row["status"] for row in self.status().get("conditions", [])}
            assert state.get("Failed") != "True", self.status()
            return state.get("Complete") == "True"
        self.until(ask, "the job is complete")
