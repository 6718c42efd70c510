#!/usr/bin/env python3
"""Keeps the folders of src/paceline apart: who may include whom, and what pure code may not name.

    tools/layers.py           check everything; one line a finding, exit 1 when there is one
    tools/layers.py --write   also write the graph into ARCHITECTURE.md, between its two markers

ALLOWED says which layer may include which. It also has layers that are still to come.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from pathlib import Path

# Each folder may include itself and these. What a folder shows of itself to one that may not
# include the rest of it stands in PARTS. Rows may stand here before their folder does.
ALLOWED: dict[str, tuple[str, ...]] = {
    "base": (),
    "model": ("base",),
    "diagnose": ("model", "base"),
    "data": ("model", "base"),
    "plan": ("data", "model", "base"),
    # How many nodes a job should have, from measured speeds. It asks the planner what fits.
    "brain": ("plan", "data", "model", "base"),
    "core": ("diagnose", "data", "plan", "brain", "model", "base"),
    "ckpt": ("model", "base"),
    # Tables and optimizers of a parameter server, without sockets: the simulator runs them too.
    "ps": ("model", "base"),
    # Spans in shared memory, and their export.
    "trace": ("model", "base"),
    # Time series of finished and running jobs in a file of a host: the brain's memory.
    "history": ("model", "base"),
    # Probes of one host before a rank runs there: disks, links, devices.
    "hostcheck": ("model", "base"),
    "platform": ("model", "base"),
    "wire": ("model", "base"),
    # The console's pages and the JSON that they ask for; the master serves both.
    "web": ("history", "model", "base"),
    "master": ("core", "diagnose", "data", "plan", "brain", "platform", "trace", "history", "web",
               "wire", "model", "base"),
    "agent": ("core", "diagnose", "data", "ckpt", "ps", "trace", "hostcheck", "wire", "model",
              "base"),
    # The process of a parameter server: threads, sockets and checkpoints around `ps`.
    "server": ("ps", "ckpt", "trace", "wire", "model", "base"),
    # The process that answers requests with a model that is still trained. It only reads `ps`.
    "serve": ("ps", "trace", "wire", "model", "base"),
    "client": ("data", "ckpt", "trace", "ps", "model", "base"),
    "sim": ("core", "diagnose", "data", "plan", "brain", "ps", "model", "base"),
    "cli": ("master", "agent", "server", "serve", "sim", "core", "diagnose", "data", "plan",
            "brain", "ckpt", "platform", "history", "hostcheck", "wire", "model", "base"),
    "bindings": ("client", "data", "plan", "model", "base"),
}
PARTS = {"wire": ("core/event.h", "core/record.h", "core/action.h", "core/checkpoint/book.h")}

# Who may see transport headers and generated code. `cli` and the hosts speak through wire.
TRANSPORT = ("wire",)

THREADS = {
    r"#include <(thread|mutex|shared_mutex|condition_variable|future)>|"
    r"\bstd::(jthread|thread|mutex|async)\b": "threads live in the hosts",
}
CLOCKS = {
    r"#include <(chrono|random)>": "time is an argument, chance is base/prng.h",
    r"\b(system_clock|steady_clock|clock_gettime|gettimeofday)\b": "time is an argument",
    r"\babsl::Now\b": "time is an argument",
    r"\b(random_device|mt19937|std::shuffle|\w+_distribution)\b": "chance is base/prng.h",
}
OUTSIDE = {
    r"#include <(filesystem|iostream|fstream|unordered_map|unordered_set)>":
        "no files, no streams, no unordered iteration here",
    r"\b(getenv|fopen|printf)\b": "pure code does no input or output",
    r'#include "paceline/base/log\.h"': "pure code returns notes; its host logs them",
    r'#include "paceline/base/(fd|file_text|host_text|spawn|test_dir)\.h"':
        "files and processes belong to the hosts",
    r"^\s*(inline )*static (?!const\b|constexpr\b|consteval\b)[\w:<>,\s*&]+ \w+"
    r"( =.*|\{.*\})?;": "no mutable statics",
    r"\bthread_local\b": "no mutable statics",
}
# What each folder may not name.
BANNED: dict[str, dict[str, str]] = {
    "base": THREADS,
    "model": THREADS | CLOCKS,
    "data": THREADS | CLOCKS | OUTSIDE,
    "plan": THREADS | CLOCKS | OUTSIDE,
    "diagnose": THREADS | CLOCKS | OUTSIDE,
    "brain": THREADS | CLOCKS | OUTSIDE,
    "ps": THREADS | CLOCKS | OUTSIDE,
    "core": THREADS | CLOCKS | OUTSIDE,
    "sim": THREADS | CLOCKS,
}
# base is where the exceptions to the rules live, each for a reason:
#   log   the hosts' logger: where lines go, set once and read by all threads
#   mark  counts hits in static marks, which nothing but a report reads
#   check prints to stderr before it aborts
EXEMPT = {"base/log.h", "base/log.cc", "base/log_test.cc", "base/mark.h", "base/mark.cc",
          "base/check.cc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
BEGIN, END = "<!-- layers:begin -->", "<!-- layers:end -->"


def strip_comments(text: str) -> str:
    """C++ text with comments emptied, so that a comment may name what code may not."""
    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0][0] in "\"'" else re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', blank, text,
                  flags=re.DOTALL)


def check_edge(folder: str, target: str) -> str | None:
    other = target.split("/")[0]
    if other == folder or other in ALLOWED[folder] or target in PARTS.get(folder, ()):
        return None
    if other not in ALLOWED:
        return f"includes {target}: no such layer"
    return f"includes {target}: {folder} may include only {', '.join(ALLOWED[folder]) or 'itself'}"


def check_words(name: str, text: str) -> list[str]:
    rules = BANNED.get(name.split("/")[0], {})
    if name in EXEMPT:
        return []
    if name.endswith("_test.cc"):  # a test may read its script from disk
        rules = {pattern: why for pattern, why in rules.items() if pattern not in OUTSIDE}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in rules.items():
            match = re.search(pattern, line)
            if match:
                found.append(f"src/paceline/{name}:{number}: '{match[0].strip()}': {why}")
    return found


def find_cycle(graph: dict[str, list[str]]) -> list[str]:
    """The files of one include cycle, in order, or nothing."""
    is_open: dict[str, bool] = {}
    path: list[str] = []

    def visit(node: str) -> list[str]:
        is_open[node] = True
        path.append(node)
        for target in graph[node]:
            if is_open.get(target):
                return [*path[path.index(target):], target]
            if target in graph and target not in is_open:
                cycle = visit(target)
                if cycle:
                    return cycle
        path.pop()
        is_open[node] = False
        return []

    for start in graph:
        cycle = [] if start in is_open else visit(start)
        if cycle:
            return cycle
    return []


def check_tree(root: Path) -> list[str]:
    source = root / "src" / "paceline"
    found: list[str] = []
    graph: dict[str, list[str]] = {}
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        name = path.relative_to(source).as_posix()
        folder = name.split("/")[0]
        if folder not in ALLOWED:
            found.append(f"src/paceline/{name}:1: folder '{folder}' is not in layers.py")
            continue
        text = strip_comments(path.read_text(encoding="utf-8"))
        includes = INCLUDE.findall(text)
        graph[name] = [i.removeprefix("paceline/") for i in includes if i.startswith("paceline/")]
        for include in includes:
            where = f"src/paceline/{name}:1: "
            if re.search(r"\.pb\.h$|^(grpcpp|grpc|google/protobuf)/", include):
                if folder not in TRANSPORT:
                    found.append(f"{where}includes {include}: only wire sees the transport")
            elif include.startswith("paceline/"):
                message = check_edge(folder, include.removeprefix("paceline/"))
                if message:
                    found.append(where + message)
        found += check_words(name, text)
    cycle = find_cycle(graph)
    if cycle:
        found.append(f"src/paceline/{cycle[0]}:1: include cycle: {' -> '.join(cycle)}")
    return found


def draw(folders: Collection[str]) -> str:
    """The table of these folders as a Mermaid graph, without the edges that others imply."""
    lines = ["```mermaid", "graph TD"]
    for folder in [one for one in reversed(ALLOWED) if one in folders]:
        below = [one for one in ALLOWED[folder] if one in folders]
        direct = [f for f in below if not any(f in ALLOWED[other] for other in below)]
        lines += [f"  {folder} --> {other}" for other in direct]
        parts = [part.removesuffix(".h").split("/", 1) for part in PARTS.get(folder, ())]
        if parts:
            names = ", ".join(name for _, name in parts)
            lines.append(f"  {folder} -.->|{names}| {parts[0][0]}")
    return "\n".join([*lines, "```"])


def check_drawing(root: Path, *, write: bool) -> list[str]:
    document = root / "ARCHITECTURE.md"
    if not document.exists():
        return []
    text = document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        return [f"ARCHITECTURE.md:1: the markers {BEGIN} and {END} are missing"]
    head, rest = text.split(BEGIN, 1)
    drawn, tail = rest.split(END, 1)
    there = [one for one in ALLOWED if (root / "src" / "paceline" / one).is_dir()]
    wanted = f"\n{draw(there)}\n"
    if drawn == wanted:
        return []
    if write:
        document.write_text(head + BEGIN + wanted + END + tail, encoding="utf-8")
        return []
    return ["ARCHITECTURE.md:1: the graph of layers differs; run tools/layers.py --write"]


def main(argv: list[str]) -> int:
    root = Path(__file__).resolve().parent.parent
    found = check_tree(root) + check_drawing(root, write="--write" in argv)
    print("\n".join(found) if found else "layers: every include follows the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
