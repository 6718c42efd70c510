"""A Kubernetes cluster of real nodes on this host: what a test does with it, and to it.

    with Cluster(directory, Options(binaries=folder)) as cluster:
        cluster.apply(manifest)
        cluster.power_off("node2")
        print(cluster.kubectl("get", "pods", "-o", "wide"))

All of it is in nested namespaces, so that this host's network and mounts stay as they are. A
program that is to reach the API server or a pod runs under `in_network`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from .control_plane import ControlPlane
from .fake_nodes import LABEL, fake_node, start_kwok
from .images import make_images
from .keys import API_ADDRESS, Keys
from .node import Node
from .options import Options
from .pod import JsonDict, Pod, pod_from
from .space import DEADLINE_S, Daemon, Space, eventually, run

BASE = Path(__file__).with_name("manifests") / "base.yaml"
# Without an address of its own, the bridge takes the lowest of its links'. It would change when a
# node is lost, and the other nodes would not reach the API server until they ask again.
BRIDGE_MAC = "02:00:00:00:00:01"


class Cluster:
    """`directory` must not exist yet, and its name must be unique on this host."""

    def __init__(self, directory: Path, options: Options):
        self.directory = directory
        self.options = options
        self.logs = directory / "logs"
        self.keys = Keys(directory / "keys")
        self.hub = Space("hub", self.logs)
        self.control = ControlPlane(self.hub, self.keys, options, str(directory / "disks" / "etcd"))
        made = [Node(index, self.hub, self.keys, options, directory)
                for index in range(1, options.node_count + 1)]
        self.nodes = {node.name: node for node in made}
        self.timeline: list[tuple[float, str]] = []  # seconds since the start, and what was done

    # ---- begin and end ----
    def __enter__(self) -> Cluster:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.down()

    def up(self) -> None:
        """Returns when pods are placed on every node, and names resolve in them."""
        began = time.monotonic()

        def done(what: str) -> None:
            self.timeline.append((round(time.monotonic() - began, 1), what))

        for folder in (self.directory, self.logs, self.directory / "disks"):
            folder.mkdir(mode=0o700)
        self._open_hub()
        self.control.start_etcd()
        done("namespaces and etcd started")
        with ThreadPoolExecutor() as pool:
            images = pool.submit(make_images, self.directory / "images")
            self.keys.make(self.options.node_count)
            done("keys made")
            self.control.start_api_server()
            images.result()
            powered = [pool.submit(node.power_on) for node in self.nodes.values()]
            self.control.until_ready()
            done("API server ready")
            self.control.start_controllers()
            self.apply(BASE.read_text().replace("BINARIES", str(self.options.binaries)))
            for future in powered:
                future.result()
        done("containerd ready with images")
        for node in self.nodes.values():
            node.start_kubelet()
        self.until_placeable(*self.nodes)
        done("nodes ready")
        if self.nodes:
            self.until_names_resolve()
            done("name service ready")

    def _open_hub(self) -> None:
        hub = self.hub
        hub.open()
        hub.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        # Data of etcd and of the nodes: no disk to wait for, and nothing to remove.
        hub.run("mount", "-t", "tmpfs", "tmpfs", str(self.directory / "disks"))
        for scope in ("all", "default"):
            hub.run("sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=1")
        hub.run("ip", "link", "add", "br0", "address", BRIDGE_MAC, "type", "bridge")
        hub.run("ip", "addr", "add", f"{API_ADDRESS}/24", "dev", "br0")
        hub.run("ip", "link", "set", "br0", "up")
        hub.run("sysctl", "-qw", "net.ipv4.ip_forward=1")

    def down(self) -> None:
        """Ends everything. `directory` stays, with the logs; no process, mount or link does."""
        self.hub.close()
        for node in self.nodes.values():
            node.power_off()
            node.remove_cgroups()

    # ---- asking ----
    @property
    def kubeconfig(self) -> str:
        """Of the cluster's administrator; it is of use under `in_network` only."""
        return self.keys.path("admin.kubeconfig")

    def in_network(self, *words: str) -> list[str]:
        """The command that runs `words` where the API server, pods and services are reached."""
        return self.hub.in_network(*words)

    def kubectl(self, *words: str, stdin: str = "", timeout_s: float = DEADLINE_S) -> str:
        return run(self.kubectl_command(*words), stdin, timeout_s)

    def kubectl_command(self, *words: str) -> list[str]:
        return self.in_network(self.options.program("kubectl"), "--kubeconfig", self.kubeconfig,
                               *words)

    def apply(self, manifest: str | JsonDict) -> None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, *words: str) -> JsonDict:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def pods(self, selector: str = "", namespace: str = "default") -> list[Pod]:
        listed = self.get("pods", "--namespace", namespace, "--selector", selector)
        return [pod_from(item) for item in listed["items"]]

    def pod(self, name: str, namespace: str = "default") -> Pod | None:
        """The pod of that name, or None if there is none."""
        listed = self.get("pods", "--namespace", namespace, "--field-selector",
                          f"metadata.name={name}")
        return next((pod_from(item) for item in listed["items"]), None)

    def log(self, pod: Pod, *flags: str) -> str:
        """What the pod's container has printed, or "" when its node does not answer."""
        asked = subprocess.run(
            self.kubectl_command("logs", "--namespace", pod.namespace, pod.name, *flags),
            capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        return asked.stdout

    def import_image(self, archive: Path) -> None:
        """Gives an image to all nodes."""
        for node in self.nodes.values():
            node.ctr("images", "import", str(archive))

    def is_node_ready(self, name: str) -> bool:
        listed = self.get("nodes", "--field-selector", f"metadata.name={name}")
        return any(condition["type"] == "Ready" and condition["status"] == "True"
                   for item in listed["items"] for condition in item["status"]["conditions"])

    def _is_placeable(self, name: str) -> bool:
        """Ready alone is too early: the taint goes a moment later."""
        listed = self.get("nodes", "--field-selector", f"metadata.name={name}")
        return self.is_node_ready(name) and all(
            not item["spec"].get("taints") for item in listed["items"])

    def eventually(self, ask: Callable[[], object], what: str,
                   deadline_s: float = DEADLINE_S) -> None:
        """A failure shows the pods and the last events."""
        eventually(lambda: bool(ask()), what, deadline_s, pause_s=0.3, said=self.story)

    def story(self) -> str:
        pods = self.kubectl("get", "pods", "-A", "-o", "wide")
        events = self.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp")
        return "\n".join([pods, *events.splitlines()[-20:]])

    def until_placeable(self, *names: str) -> None:
        for name in names:
            self.eventually(lambda name=name: self._is_placeable(name), f"{name} takes pods")

    def until_not_ready(self, name: str) -> None:
        self.eventually(lambda: not self.is_node_ready(name), f"{name} is NotReady")

    def until_names_resolve(self) -> None:
        """One name server is enough; the others follow."""
        self.eventually(lambda: any(pod.is_ready for pod in
                                    self.pods("k8s-app=kube-dns", "kube-system")),
                        "a name server is ready")

    # ---- faults ----
    def power_off(self, name: str) -> None:
        self.nodes[name].power_off()

    def start(self, name: str) -> None:
        """Power is back: the node boots with the disk that it had."""
        self.nodes[name].power_on()
        self.nodes[name].start_kubelet()

    def cut_link(self, name: str) -> None:
        """The node runs on, and reaches nobody."""
        self.nodes[name].set_link("down")

    def heal_link(self, name: str) -> None:
        self.nodes[name].set_link("up")

    def kill_container(self, pod: Pod) -> None:
        """SIGKILL to PID 1 of the pod's container, and so to all of it."""
        self.nodes[pod.node].kill_container(pod.container_id)

    def stop_api_server(self) -> None:
        self.hub.daemons["kube-apiserver"].kill()

    def start_api_server(self) -> None:
        self.control.start_api_server()
        self.control.until_ready()

    # ---- more nodes, and programs of a test ----
    def add_fake_nodes(self, count: int) -> None:
        """Nodes fake1 to fake<count>, once they take pods that ask for them (see fake_nodes.py)."""
        start_kwok(self.hub, self.keys, self.options)
        made = [fake_node(index) for index in range(1, count + 1)]
        self.apply({"apiVersion": "v1", "kind": "List", "items": made})
        selector = ",".join(f"{name}={value}" for name, value in LABEL.items())
        self.eventually(lambda: self.kubectl("get", "nodes", "--selector", selector,
                                             "--no-headers").count(" Ready ") == count,
                        f"{count} fake nodes are ready")


    def start_program(self, name: str, words: Sequence[str]) -> Daemon:
        """Starts a program of this host, such as an operator, in the cluster's network.

        It ends with the cluster, its output is in logs/NAME.log, and its KUBECONFIG is that of the
        administrator.
        """
        return self.hub.start(name, list(words), {"KUBECONFIG": self.kubeconfig})
