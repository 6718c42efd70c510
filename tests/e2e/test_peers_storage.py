"""Several hosts restore from storage: one reads for all, and any layout finds what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hosts import PREFIX, Host, again, fetched, ip, needs_hosts, start
from hosts import run as run_word
from job import eventually
from object_store import BUCKET, environment_for
from test_peers import RARELY, finals, restored, script

pytest.importorskip("torch", reason="checkpoints are of torch's tensors here")
pytestmark = needs_hosts

ADDRESS = "10.77.0.100"
PORT = 5000
# Arguments: URL of the bucket, certificate of the server.
MAKE_BUCKET = """
import ssl, sys, urllib.request as http
trusted = ssl.create_default_context(cafile=sys.argv[2])
http.urlopen(http.Request(sys.argv[1], method="PUT"), timeout=5, context=trusted).read()
"""


class ReachableStore:
    """An S3 server that stands beside the hosts, at the bridge that joins them."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "moto.log"
        ip(f"-n {PREFIX}sw addr add {ADDRESS}/24 dev br0")
        # Nothing is sent in clear to another host.
        key, authority = folder / "moto.key", folder / "moto.pem"
        run_word("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                 "-nodes", "-keyout", str(key), "-out", str(authority), "-days", "2",
                 "-subj", "/CN=store", "-addext", f"subjectAltName=IP:{ADDRESS}")
        inside = ["ip", "netns", "exec", f"{PREFIX}sw", sys.executable]
        with self.log.open("wb") as log:
            self._server = subprocess.Popen(
                [*inside, "-m", "moto.server", "-H", ADDRESS, "-p", str(PORT),
                 "--ssl", "--ssl-cert", str(authority), "--ssl-key", str(key)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        url = f"https://{ADDRESS}:{PORT}"
        self.environment = {**environment_for(url), "AWS_CA_BUNDLE": str(authority)}
        make = [*inside, "-c", MAKE_BUCKET, f"{url}/{BUCKET}", str(authority)]
        eventually(lambda: subprocess.run(make, capture_output=True, check=False).returncode == 0,
                   "a bucket")

    def readers_of(self, name: str) -> set[str]:
        """Addresses of hosts that asked for a file whose key ends like that."""
        asked = re.findall(rf"^(\S+) .*GET \S*/{re.escape(name)} HTTP", self.log.read_text(), re.M)
        return set(asked)

    def stop(self) -> None:
        self._server.kill()
        self._server.wait()


@pytest.fixture
def store(hosts: list[Host]) -> Iterator[ReachableStore]:
    store = ReachableStore(hosts[0].job.directory)
    for host in hosts:
        host.job.env |= store.environment
    yield store
    store.stop()


def run(hosts: Sequence[Host], *flags: str, script: Sequence[str]) -> None:
    hosts[0].job.be_patient()
    start(hosts, *flags, script=script)
    for host in hosts:
        assert host.job.wait() == 0, host.job.stderr


def test_an_object_store_is_read_once_for_all_hosts(
    hosts: list[Host], store: ReachableStore
) -> None:
    place = ["--checkpoint", f"s3://{BUCKET}/gpt"]
    run(hosts, "--nnodes", "3", script=[*script(hosts[0], *RARELY, steps=30), *place])
    assert not store.readers_of("shard-00000.safetensors")
    then = again(hosts)
    run(then, "--nnodes", "3", script=[*script(then[0], *RARELY, steps=60), *place])
    assert finals(then[0], 3) == [60.0] * 3
    for rank in range(3):
        step, why = restored(then[0], rank)[-1]
        assert step == 30 and "from step-29" in why
    assert len(store.readers_of("shard-00000.safetensors")) == 1
    read = {host.name: [one["from"] for one in fetched(host)] for host in then}
    assert sum("s3://" in one for froms in read.values() for one in froms) == 1, read
    assert all(len(froms) == 1 for froms in read.values()), read


def test_a_step_in_memory_is_rescued_to_an_object_store(
    hosts: list[Host], store: ReachableStore
) -> None:
    """The lost host is the master's: test_rescue.py has the other cases."""
    first, second, third = hosts
    place = f"s3://{BUCKET}/gpt"
    start(hosts, "--nnodes", "3",
          script=[*script(first, "--cut", *RARELY, steps=100_000), "--checkpoint", place])
    eventually(lambda: any(one["rank"] == "0" and int(one["step"]) >= 30
                           for host in (second, third) for one in fetched(host)),
               "another host has a copy of rank 0's step", job=first.job)
    first.crash()
    # A host that still believes in the master would tell the command so.
    for host in (second, third):
        eventually(lambda host=host: "paceline ckpt rescue" in host.job.stderr,
                   f"{host.name} names the command", job=host.job)
    done = second.command("ckpt", "rescue", str(second.job.run_dir))
    assert done.returncode == 0, (done, second.job.stderr)
    assert f"to storage: {place}/step-" in done.stdout, done
    verified = second.command("ckpt", "verify", place)
    assert verified.returncode == 0, verified
    assert second.job.wait() == 3 and third.job.wait() == 3


# Arguments: place of checkpoints, layout, file for what was found.
LAYOUT = """
import sys
import paceline.torch as pl, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
place, layout, out = sys.argv[1:]
whole = torch.arange(4000.0).reshape(400, 10)
if layout == "copies":  # ranks 0 and 2 have the same half, and 1 and 3
    mesh, parts = init_device_mesh("cpu", (2, 2)), [Replicate(), Shard(0)]
else:
    mesh, parts = init_device_mesh("cpu", (4,)), [Shard(0)]
saved = layout == "copies"
state = {"w": distribute_tensor(whole if saved else torch.zeros_like(whole), mesh, parts)}
ckpt = pl.Checkpointer(place)
step = ckpt.restore(state)
if saved:
    ckpt.save(step, state)
ckpt.close()
good = torch.equal(state["w"].full_tensor(), whole)
open(f"{out}-{dist.get_rank()}", "w").write(f"{step} {good}")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["directory", "object store"])
def test_another_layout_of_the_same_size_reads_what_it_lacks(
    hosts: list[Host], request: pytest.FixtureRequest, kind: str
) -> None:
    """The tensors that one host reads for several are not all that a rank needs now."""
    folder = hosts[0].job.directory
    place = str(folder / "ckpt")
    if kind == "object store":
        request.getfixturevalue("store")
        place = f"s3://{BUCKET}/layouts"
    text = folder / "layout.py"
    text.write_text(LAYOUT)
    two = hosts[:2]
    for layout in ("copies", "rows"):
        words = [str(text), place, layout, str(folder / layout)]
        run(two, "--nnodes", "2", "--nproc-per-node", "2", script=words)
        two = again(two)
    assert [(folder / f"rows-{rank}").read_text() for rank in range(4)] == ["1 True"] * 4
