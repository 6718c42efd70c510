#!/usr/bin/env python3
"""Makes the operator's image without a container engine: one static binary.

The binary runs as user 65532, which has no privileges.

    image.py PROGRAM NAME:TAG ARCHIVE

The archive has the format of `docker save`, so that docker, podman, skopeo and containerd read it.
The same program gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

USER = "65532:65532"
MACHINES = {62: "amd64", 183: "arm64"}  # e_machine of ELF: what the binary was built for


def member(name: str, mode: int, data: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.mode, info.size = mode, len(data)
    return info, io.BytesIO(data)


def archive_of(members: dict[str, bytes], mode: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            tar.addfile(*member(name, mode, data))
    return made.getvalue()


def architecture_of(program: bytes) -> str:
    machine = int.from_bytes(program[18:20], "little")
    if program[:4] != b"\x7fELF" or machine not in MACHINES:
        sys.exit("image.py: the program is not a Linux binary for amd64 or arm64.\n"
                 "  why: an image names the architecture that it runs on\n"
                 "  fix: `make operator` on Linux, or with GOOS=linux")
    return MACHINES[machine]


def image_of(program: Path, name: str) -> bytes:
    binary = program.read_bytes()
    layer = archive_of({program.name: binary}, 0o755)
    config = json.dumps({
        "architecture": architecture_of(binary), "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": USER},
        "rootfs": {"type": "layers",
                   "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created_by": "deploy/kubernetes/operator/image.py"}]}).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name],
                            "Layers": ["layer.tar"]}]).encode()
    return archive_of({"layer.tar": layer, config_name: config, "manifest.json": manifest}, 0o644)


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, name, archive = sys.argv[1:]
    Path(archive).write_bytes(image_of(Path(program), name))


if __name__ == "__main__":
    main()
