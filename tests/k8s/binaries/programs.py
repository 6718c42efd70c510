#!/usr/bin/env python3
"""Builds the programs of a Kubernetes cluster from source, into a cache that all checkouts share.

    programs.py           builds what is missing (about 15 minutes on two cores with cold Go caches)
    programs.py --kueue   builds Kueue as well, which only test_kueue.py needs
    programs.py --path    prints the folder of the programs; exit code 1 if one is missing

A folder's name holds a digest of the modules beside this file, so that a change of a version makes
a new folder, and a fresh clone finds the programs of the last one. Kueue has a folder of its own.
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
KUEUE = Program("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue")

# What kwok says of its nodes and pods, from its own module, in one file.
STAGES = "kwok-stages.yaml"
STAGE_FILES = (
    "node/fast/node-initialize.yaml", "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml")

# Kueue's own manifest, from its own module, in one file. kubectl puts it together.
KUEUE_MANIFEST = "kueue.yaml"


def digest_of(modules: set[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(HERE.glob("*/*")):
        if path.parent.name in modules and path.suffix in {".go", ".mod", ".sum"}:
            digest.update(f"{path.relative_to(HERE)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def user_cache() -> Path:
    """The cache of the user, also where tests/conftest.py gave the tests another one."""
    named = os.environ.get("PACELINE_USER_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path.home() / ".cache"


def program_folder() -> Path:
    modules = {program.module for program in PROGRAMS}
    return user_cache() / "paceline-tests" / f"k8s-{digest_of(modules)}"


def kueue_folder() -> Path:
    return user_cache() / "paceline-tests" / f"kueue-{digest_of({KUEUE.module})}"


def missing_programs() -> list[str]:
    folder = program_folder()
    names = [*(program.name for program in PROGRAMS), STAGES]
    return [name for name in names if not (folder / name).exists()]


def has_kueue() -> bool:
    return all((kueue_folder() / name).exists() for name in (KUEUE.name, KUEUE_MANIFEST))


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


def folder_of(name: str) -> Path:
    """Where the sources of the module sigs.k8s.io/NAME are."""
    listed = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", f"sigs.k8s.io/{name}"],
                            cwd=HERE / name, capture_output=True, text=True, check=True)
    return Path(listed.stdout.strip())


def write_stages(folder: Path) -> None:
    source = folder_of("kwok") / "kustomize" / "stage"
    texts = [(source / name).read_text() for name in STAGE_FILES]
    (folder / STAGES).write_text("---\n".join(texts))


def write_manifest(folder: Path) -> None:
    made = subprocess.run(
        [str(program_folder() / "kubectl"), "kustomize",
         str(folder_of("kueue") / "config" / "default")],
        capture_output=True, text=True, check=True)
    (folder / KUEUE_MANIFEST).write_text(made.stdout)


def build_kueue() -> None:
    folder = kueue_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / KUEUE.name).exists():
        build(KUEUE, folder)
    write_manifest(folder)
    print(f"k8s-binaries: Kueue in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description="builds the programs of a Kubernetes cluster")
    parser.add_argument("--path", action="store_true", help="print the folder of the programs")
    parser.add_argument("--kueue", action="store_true", help="build Kueue as well")
    wanted = parser.parse_args()
    folder = program_folder()
    missing = missing_programs()
    if wanted.path:
        print(folder)
        return 1 if missing else 0
    needs_kueue = wanted.kueue and not has_kueue()
    if (missing or needs_kueue) and shutil.which("go") is None:
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
    if needs_kueue:
        build_kueue()
    return 0


if __name__ == "__main__":
    sys.exit(main())
