"""One node: a space with a network of pods, and containerd, kubelet and kube-proxy in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .images import PAUSE
from .keys import API_ADDRESS, Keys, node_address
from .options import Options
from .space import ClusterError, Space, eventually

CGROUPS = Path("/sys/fs/cgroup")
CONTAINERD = "/run/containerd.sock"
DNS_ADDRESS = "10.96.0.10"
PODS = "10.244.0.0/16"
# The kubelet sets these of the whole machine. A file over each keeps it from that.
SYSCTLS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10,
           "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
           "kernel/keys/root_maxbytes": 25000000}
# Folders of the node's disk by where the node expects them. Common ones would let nodes take each
# other's pod addresses and pods.
DISK = {"cni": "/var/lib/cni", "kubelet": "/var/lib/kubelet", "pods": "/var/log/pods",
        "containers": "/var/log/containers"}


def pods_of(index: int) -> str:
    return f"10.244.{index}.0/24"


class Node:
    """`disk` lies in memory of the hub, so that it outlives a power cut, and not the cluster."""

    def __init__(self, index: int, hub: Space, keys: Keys, options: Options, directory: Path):
        self.index = index
        self.name = f"node{index}"
        self.hub = hub
        self.keys = keys
        self.options = options
        self.disk = directory / "disks" / self.name
        self.settings = directory / self.name
        self.images = directory / "images"
        self.cgroup = f"{directory.name}-{self.name}"  # unique on this host
        self.space = Space(self.name, directory / "logs", hub)

    # ---- power ----
    def power_on(self) -> None:
        """Returns when containerd has its images. `start_kubelet` makes it a node."""
        self.space.open()
        self._mount()
        self._join_network()
        self._make_cgroups()
        self._write_settings()
        self.space.start("containerd-" + self.name, [
            "containerd", "--config", str(self.settings / "containerd.toml")])
        self.space.daemons["containerd-" + self.name].until(self._import_images, "images")

    def start_kubelet(self) -> None:
        """Needs an API server: the first certificate check of a kubelet is not repeated soon."""
        self.space.start("kubelet-" + self.name, [
            self.options.program("kubelet"), "--config", str(self.settings / "kubelet.yaml"),
            "--kubeconfig", self.keys.path(f"{self.name}.kubeconfig"),
            "--hostname-override", self.name, "--node-ip", node_address(self.index)])
        self.space.start("kube-proxy-" + self.name, [
            self.options.program("kube-proxy"), "--config", str(self.settings / "proxy.yaml")])

    def stop_kubelet(self) -> None:
        """Containers go on without it."""
        self.space.daemons["kubelet-" + self.name].kill()

    def power_off(self) -> None:
        """As when the power is cut: every process and the network end at once."""
        self.space.close()

    # ---- parts ----
    def _mount(self) -> None:
        run = self.space.run
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("mkdir", "-p", "/run/netns", "/run/lock", "/run/sysctl")
        for name, place in DISK.items():
            run("mkdir", "-p", str(self.disk / name), place)
            run("mount", "--bind", str(self.disk / name), place)
        for name, value in SYSCTLS.items():
            file = f"/run/sysctl/{name.replace('/', '.')}"
            run("tee", file, stdin=f"{value}\n")
            run("mount", "--bind", file, f"/proc/sys/{name}")
        # Mounts of pods must reach containers.
        run("mount", "--make-rshared", "/")

    def _join_network(self) -> None:
        """A link to the hub's bridge, and routes to the pods of the other nodes."""
        hub_end = f"ve{self.index}"
        self.hub_ip("link", "add", hub_end, "type", "veth", "peer", "name", "eth0", "netns",
                    str(self.space.pid))
        self.hub_ip("link", "set", hub_end, "master", "br0", "up")
        self.hub_ip("route", "replace", pods_of(self.index), "via", node_address(self.index))
        run = self.space.run
        for scope in ("all", "default"):
            run("sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=1")
        run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        run("ip", "addr", "add", f"{node_address(self.index)}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", API_ADDRESS)
        for other in range(1, self.options.node_count + 1):
            if other != self.index:
                run("ip", "route", "add", pods_of(other), "via", node_address(other))

    def hub_ip(self, *words: str) -> None:
        # Not in the hub's process namespace: process ids are those of this host.
        done = subprocess.run(self.hub.in_network("ip", *words), capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise ClusterError(f"ip {' '.join(words)}: {done.stderr}")

    def set_link(self, state: str) -> None:
        """At the hub's end, because the node's own end would lose its routes."""
        self.hub_ip("link", "set", f"ve{self.index}", state)

    def _make_cgroups(self) -> None:
        """One root for each node: of a common one, kubelets would remove each other's pods."""
        if (CGROUPS / "cgroup.controllers").exists():
            (CGROUPS / "cgroup.subtree_control").write_text("+cpu +memory +pids +cpuset")
            root = CGROUPS / self.cgroup
            root.mkdir(exist_ok=True)
            (root / "cgroup.subtree_control").write_text("+cpu +memory +pids +cpuset")
            return
        for controller in CGROUPS.iterdir():
            if (controller / "cgroup.procs").exists():
                (controller / self.cgroup).mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            whole = CGROUPS / "cpuset" / name
            if whole.exists():
                (CGROUPS / "cpuset" / self.cgroup / name).write_text(whole.read_text())

    def cgroups(self) -> list[Path]:
        """What this node has in the kernel's tree of control groups, the roots of it."""
        places = [CGROUPS / self.cgroup, *CGROUPS.glob(f"*/{self.cgroup}")]
        return [place for place in places if place.exists()]

    def remove_cgroups(self) -> None:
        """Once no process is left; the kernel may take a moment to see that."""
        def remove() -> bool:
            for root in self.cgroups():
                for folder in sorted(root.rglob("*"), reverse=True):
                    if folder.is_dir():
                        try_to_remove(folder)
                try_to_remove(root)
            return not self.cgroups()
        eventually(remove, f"the control groups of {self.name} are empty")

    def _write_settings(self) -> None:
        self.settings.mkdir(exist_ok=True)
        (self.settings / "cni").mkdir(exist_ok=True)
        for name, text in (("containerd.toml", self._containerd_toml()),
                           ("kubelet.yaml", self._kubelet_yaml()),
                           ("proxy.yaml", self._proxy_yaml()),
                           ("cni/10-pods.conflist", self._network_json())):
            (self.settings / name).write_text(text)

    def _containerd_toml(self) -> str:
        return f"""\
version = 2
root = "{self.disk}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{self.settings}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
"""

    def _network_json(self) -> str:
        return f"""\
{{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{pods_of(self.index)}"}}]],
              "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}},
  {{"type": "loopback"}}]}}
"""

    def _kubelet_yaml(self) -> str:
        key = self.keys.path
        return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /{self.cgroup}
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
# Each node sees all memory of this host, and offers a quarter.
systemReserved: {{memory: "{memory_kb() * 3 // 4}Ki"}}
failSwapOn: false
failCgroupV1: false
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true, cacheTTL: 10s}}
  x509: {{clientCAFile: {key("ca.crt")}}}
authorization: {{mode: Webhook}}
tlsCertFile: {key(f"{self.name}-serving.crt")}
tlsPrivateKeyFile: {key(f"{self.name}-serving.key")}
containerRuntimeEndpoint: unix://{CONTAINERD}
address: {node_address(self.index)}
readOnlyPort: 0
clusterDNS: [{DNS_ADDRESS}]
clusterDomain: cluster.local
resolvConf: ""
nodeStatusUpdateFrequency: {self.options.node_status}
nodeLeaseDurationSeconds: {self.options.node_lease_s}
"""

    def _proxy_yaml(self) -> str:
        return f"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {{kubeconfig: {self.keys.path("proxy.kubeconfig")}}}
clusterCIDR: {PODS}
bindAddress: {node_address(self.index)}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
hostnameOverride: {self.name}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""

    # ---- containers ----
    def ctr(self, *words: str) -> str:
        return self.space.run("ctr", "--address", CONTAINERD, "--namespace", "k8s.io", *words)

    def _import_images(self) -> bool:
        try:
            have = self.ctr("images", "ls", "-q").split()
        except ClusterError:
            return False  # containerd does not listen yet
        for archive in sorted(self.images.glob("*.tar")):
            if f"docker.io/local/{archive.stem}:1" not in have:
                self.ctr("images", "import", str(archive))
        return True

    def container_pid(self, container_id: str) -> int:
        """PID 1 of the container, as the node numbers it; 0 when it does not run."""
        for line in self.ctr("tasks", "ls").splitlines():
            words = line.split()
            if words[0] == container_id and words[-1] == "RUNNING":
                return int(words[1])
        return 0

    def kill_container(self, container_id: str) -> None:
        pid = self.container_pid(container_id)
        if pid == 0:
            raise ClusterError(f"container {container_id} does not run on {self.name}")
        self.space.run("kill", "-9", str(pid))


def try_to_remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # a process or a folder is still in it


def memory_kb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    raise ClusterError("/proc/meminfo has no MemTotal")
