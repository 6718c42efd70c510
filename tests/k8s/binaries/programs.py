#!/usr/bin/env python3
"""Builds the programs of a Kubernetes cluster from source, into a cache that all checkouts share.

    programs.py           builds what is missing (about 15 minutes on two cores with cold Go caches)
    programs.py --path    prints the folder of the programs; exit code 1 if one is missing

The folder's name holds a digest of the modules beside this file, so that a change of a version
makes a new folder, and a fresh clone finds the programs of the last one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = "v1.34.4"
# Without them the programs take themselves for version 0.0.0, and clients refuse to speak to it.
VERSION_FLAGS = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in (
    ("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "34")))


@dataclass(frozen=True)
class Program:
    name: str
    module: str  # folder with the go.mod
    package: str = "."


def of_kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")


# First what a test of the API alone needs, then what runs pods.
PROGRAMS = (
    Program("etcd", "etcd"),
    of_kubernetes("kube-apiserver"),
    of_kubernetes("kubectl"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    of_kubernetes("kube-controller-manager"),
    of_kubernetes("kube-scheduler"),
    of_kubernetes("kubelet"),
    of_kubernetes("kube-proxy"),
    Program("coredns", "coredns"),
)

# What kwok says of its nodes and pods, from its own module, in one file.
STAGES = "kwok-stages.yaml"
STAGE_FILES = (
    "node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")


def module_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(HERE.glob("*/*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(f"{path.relative_to(HERE)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def user_cache() -> Path:
    """The cache of the user, also where tests/conftest.py gave the tests another one."""
    named = os.environ.get("PACELINE_USER_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path.home() / ".cache"


def program_folder() -> Path:
    return user_cache() / "paceline-tests" / f"k8s-{module_digest()}"


def missing_programs() -> list[str]:
    folder = program_folder()
    names = [*(program.name for program in PROGRAMS), STAGES]
    return [name for name in names if not (folder / name).exists()]


def build(program: Program, folder: Path) -> None:
    """Renamed into place at the end, so that a program that is there is a whole one."""
    unfinished = folder / f".{program.name}.{os.getpid()}"
    flags = VERSION_FLAGS if program.module == "kubernetes" else ""
    started = time.monotonic()
    print(f"k8s-binaries: building {program.name} …", flush=True)
    subprocess.run(
        ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false",
         "-ldflags", f"-s -w {flags}".strip(), "-o", str(unfinished), program.package],
        cwd=HERE / program.module, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    unfinished.rename(folder / program.name)
    print(f"k8s-binaries: {program.name} took {time.monotonic() - started:.0f} s", flush=True)


def write_stages(folder: Path) -> None:
    module = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"],
                            cwd=HERE / "kwok", capture_output=True, text=True, check=True)
    source = Path(module.stdout.strip()) / "kustomize" / "stage"
    texts = [(source / name).read_text() for name in STAGE_FILES]
    (folder / STAGES).write_text("---\n".join(texts))


def main() -> int:
    parser = argparse.ArgumentParser(description="builds the programs of a Kubernetes cluster")
    parser.add_argument("--path", action="store_true", help="print the folder of the programs")
    folder = program_folder()
    missing = missing_programs()
    if parser.parse_args().path:
        print(folder)
        return 1 if missing else 0
    if missing and shutil.which("go") is None:
        print("k8s-binaries: no `go` in PATH; the programs need Go 1.26 or newer "
              "(https://go.dev/dl)", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        if program.name in missing:
            build(program, folder)
    if STAGES in missing:
        write_stages(folder)
    print(f"k8s-binaries: all in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
