"""etcd, the API server, the controllers and the scheduler, in the cluster's outer space."""

from __future__ import annotations

import subprocess

from .keys import API_ADDRESS, Keys
from .options import Options
from .space import Daemon, Space

ETCD_URL = "http://127.0.0.1:2379"
ETCD_PEER_URL = "http://127.0.0.1:2380"
SERVICES = "10.96.0.0/16"
# Controllers that ask a cloud, or that give out pod addresses, which are fixed here.
LEFT_OUT = ("nodeipam", "cloud-node-lifecycle-controller", "service-lb-controller",
            "node-route-controller")


class ControlPlane:
    def __init__(self, hub: Space, keys: Keys, options: Options, data: str):
        self.hub = hub
        self.keys = keys
        self.options = options
        self.data = data  # folder of etcd

    def start_etcd(self) -> None:
        self.hub.start("etcd", [
            self.options.program("etcd"), "--data-dir", self.data, "--log-level", "warn",
            "--unsafe-no-fsync",  # the data are gone with the cluster anyhow
            "--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL,
            "--listen-peer-urls", ETCD_PEER_URL, "--initial-advertise-peer-urls", ETCD_PEER_URL,
            "--initial-cluster", f"default={ETCD_PEER_URL}"])

    def start_api_server(self) -> Daemon:
        key = self.keys.path
        evict_after = self.options.evict_after_s
        return self.hub.start("kube-apiserver", [
            self.options.program("kube-apiserver"), f"--etcd-servers={ETCD_URL}",
            f"--bind-address={API_ADDRESS}", f"--advertise-address={API_ADDRESS}",
            "--secure-port=6443", f"--service-cluster-ip-range={SERVICES}",
            f"--tls-cert-file={key('apiserver.crt')}",
            f"--tls-private-key-file={key('apiserver.key')}",
            f"--client-ca-file={key('ca.crt')}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-certificate-authority={key('ca.crt')}",
            f"--kubelet-client-certificate={key('to-kubelets.crt')}",
            f"--kubelet-client-key={key('to-kubelets.key')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={key('accounts.pub')}",
            f"--service-account-signing-key-file={key('accounts.key')}",
            # Without it the controllers log an error every ten seconds.
            f"--requestheader-client-ca-file={key('ca.crt')}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            f"--default-not-ready-toleration-seconds={evict_after}",
            f"--default-unreachable-toleration-seconds={evict_after}",
            "--allow-privileged=true", "--profiling=false", *self.options.api_flags])

    def _client_flags(self, name: str) -> list[str]:
        config = self.keys.path(f"{name}.kubeconfig")
        return ["--kubeconfig", config, "--authentication-kubeconfig", config,
                "--authorization-kubeconfig", config, "--bind-address", "127.0.0.1",
                "--leader-elect=false",
                # With the usual limits a new node keeps its taint for five seconds.
                "--kube-api-qps=300", "--kube-api-burst=500"]

    def start_controllers(self) -> None:
        key = self.keys.path
        self.hub.start("kube-controller-manager", [
            self.options.program("kube-controller-manager"), *self._client_flags("controllers"),
            "--use-service-account-credentials=true", f"--root-ca-file={key('ca.crt')}",
            f"--service-account-private-key-file={key('accounts.key')}",
            f"--cluster-signing-cert-file={key('ca.crt')}",
            f"--cluster-signing-key-file={key('ca.key')}", "--allocate-node-cidrs=false",
            f"--controllers=*,{','.join(f'-{name}' for name in LEFT_OUT)}",
            f"--node-monitor-period={self.options.node_monitor}",
            f"--node-monitor-grace-period={self.options.node_grace}"])
        self.hub.start("kube-scheduler", [
            self.options.program("kube-scheduler"), *self._client_flags("scheduler")])

    def is_ready(self) -> bool:
        asked = subprocess.run(
            self.hub.in_network(self.options.program("kubectl"), "--kubeconfig",
                                self.keys.path("admin.kubeconfig"), "get", "--raw", "/readyz"),
            capture_output=True, check=False)
        return asked.returncode == 0

    def until_ready(self) -> None:
        self.hub.daemons["kube-apiserver"].until(self.is_ready, "the API server is ready")
