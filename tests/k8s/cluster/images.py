"""Images without a registry: archives that are made of this host's static busybox.

`docker.io/local/busybox:1` is for pods, and `docker.io/local/pause:1` holds a pod's namespaces.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

from .space import run

BUSYBOX = "docker.io/local/busybox:1"
PAUSE = "docker.io/local/pause:1"
ENTRIES = {BUSYBOX: ["/bin/sh"], PAUSE: ["/bin/sleep", "2147483647"]}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FOLDERS = ("bin", "dev", "etc", "home", "lib", "lib64", "mnt", "proc", "root", "run", "sys", "tmp",
           "usr", "var", "var/tmp", "work")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home:/bin/sh\n",
    "etc/group": "root:x:0:\nuser:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def member(name: str, kind: bytes, mode: int = 0o755, size: int = 0,
           link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    return info


def make_layer() -> bytes:
    """One layer: busybox with a link for each of its programs, and a few files of /etc."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in FOLDERS:
            mode = 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(member(name, tarfile.DIRTYPE, mode))
        program = Path("/bin/busybox").read_bytes()
        tar.addfile(member("bin/busybox", tarfile.REGTYPE, size=len(program)),
                    io.BytesIO(program))
        for applet in run(["busybox", "--list"]).split():
            if applet != "busybox":
                tar.addfile(member(f"bin/{applet}", tarfile.SYMTYPE, link="busybox"))
        for name, text in FILES.items():
            data = text.encode()
            tar.addfile(member(name, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))
    return layer.getvalue()


def make_image(image: str, entry: list[str], layer: bytes, folder: Path) -> Path:
    """Returns the archive, in the format of `docker save`."""
    config = json.dumps({
        "architecture": ARCHITECTURES.get(platform.machine(), "amd64"), "os": "linux",
        "config": {"Entrypoint": entry, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/sbin"]},
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": []}).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [image],
                            "Layers": ["layer.tar"]}]).encode()
    name = image.rsplit("/", 1)[1].split(":")[0]
    archive = folder / f"{name}.tar"
    with tarfile.open(archive, "w") as tar:
        for part, data in (("layer.tar", layer), (config_name, config),
                           ("manifest.json", manifest)):
            tar.addfile(member(part, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))
    return archive


def make_images(folder: Path) -> list[Path]:
    """Returns the archives, one for each image of ENTRIES."""
    folder.mkdir()
    layer = make_layer()
    return [make_image(image, entry, layer, folder) for image, entry in ENTRIES.items()]
