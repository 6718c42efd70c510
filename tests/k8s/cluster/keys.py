"""The cluster's certificate authority, its keys, and a kubeconfig for each of its parts."""

from __future__ import annotations

from pathlib import Path

from .space import run

API_ADDRESS = "10.200.0.1"
API_URL = f"https://{API_ADDRESS}:6443"
SERVICE_ADDRESS = "10.96.0.1"  # of the service `kubernetes`, the first one of the range
API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc",
             "kubernetes.default.svc.cluster.local", "localhost")
DAYS = "30"


def node_address(index: int) -> str:
    return f"10.200.0.{10 + index}"


class Keys:
    """Files in one folder: NAME.key, NAME.crt and, for clients of the API, NAME.kubeconfig."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def make(self, node_count: int) -> None:
        self.folder.mkdir(mode=0o700)
        self._make_authority()
        names = [*(f"DNS:{name}" for name in API_NAMES),
                 *(f"IP:{ip}" for ip in (API_ADDRESS, SERVICE_ADDRESS, "127.0.0.1"))]
        self._certificate("apiserver", "/CN=kube-apiserver", "serverAuth", names)
        # The API server as a client of the kubelets.
        self._client("to-kubelets", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self._client("admin", "/O=system:masters/CN=admin")
        self._client("controllers", "/CN=system:kube-controller-manager")
        self._client("scheduler", "/CN=system:kube-scheduler")
        self._client("proxy", "/CN=system:kube-proxy")
        for index in range(1, node_count + 1):
            subject = f"/O=system:nodes/CN=system:node:node{index}"
            self._client(f"node{index}", subject)
            self._certificate(f"node{index}-serving", subject, "serverAuth",
                              [f"IP:{node_address(index)}", f"DNS:node{index}"])

    def _make_authority(self) -> None:
        self._key("ca")
        run(["openssl", "req", "-x509", "-new", "-key", self.path("ca.key"), "-days", DAYS,
             "-subj", "/CN=paceline-tests", "-out", self.path("ca.crt"),
             "-addext", "basicConstraints=critical,CA:TRUE",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign"])
        self._key("accounts")  # signs the tokens of service accounts
        run(["openssl", "pkey", "-in", self.path("accounts.key"), "-pubout",
             "-out", self.path("accounts.pub")])

    def _key(self, name: str) -> None:
        run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout",
             "-out", self.path(f"{name}.key")])

    def _certificate(self, name: str, subject: str, usage: str, names: list[str]) -> None:
        self._key(name)
        extensions = ["basicConstraints=CA:FALSE", "keyUsage=digitalSignature,keyEncipherment",
                      f"extendedKeyUsage={usage}"]
        if names:
            extensions.append(f"subjectAltName={','.join(names)}")
        wanted = self.folder / f"{name}.extensions"
        wanted.write_text("\n".join(extensions) + "\n")
        request = run(["openssl", "req", "-new", "-key", self.path(f"{name}.key"),
                       "-subj", subject])
        run(["openssl", "x509", "-req", "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"),
             "-CAcreateserial", "-days", DAYS, "-extfile", str(wanted),
             "-out", self.path(f"{name}.crt")], stdin=request)

    def _client(self, name: str, subject: str) -> None:
        self._certificate(name, subject, "clientAuth", [])
        (self.folder / f"{name}.kubeconfig").write_text(f"""\
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {{server: "{API_URL}", certificate-authority: {self.path("ca.crt")}}}
users:
- name: user
  user: {{client-certificate: {self.path(f"{name}.crt")}, client-key: {self.path(f"{name}.key")}}}
contexts:
- name: context
  context: {{cluster: cluster, user: user}}
current-context: context
""")
