#!/usr/bin/env python3
"""Keeps the folders of src/paceline apart: who may include whom, and what pure code may not name.

    tools/layers.py           check everything; one line a finding, exit 1 when there is one
    tools/layers.py --write   also write the graph into ARCHITECTURE.md, between its two markers

ALLOWED says which layer may include which, and KNOTS which cycles between folders of one layer are
still there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

# Each folder may include itself and these. What a folder shows of itself to one that may not
# include the rest of it stands in PARTS.
ALLOWED: dict[str, tuple[str, ...]] = {
    "base": (),
    "model": ("base",),
    "diagnose": ("model", "base"),
    "logclass": ("model", "base"),
    "brain": ("model", "base"),
    "data": ("model", "base"),
    "plan": ("data", "model", "base"),
    "ps": ("data", "model", "base"),
    "core": ("brain", "diagnose", "data", "plan", "model", "base"),
    "ckpt": ("model", "base"),
    "platform": ("model", "base"),
    "wire": ("model", "base"),
    "master": ("core", "brain", "diagnose", "data", "plan", "platform", "wire", "model", "base"),
    "agent": ("core", "diagnose", "logclass", "data", "ckpt", "wire", "model", "base"),
    "client": ("ps", "data", "ckpt", "model", "base"),
    "server": ("ps", "data", "model", "base"),
    "sim": ("core", "brain", "diagnose", "data", "plan", "ps", "model", "base"),
    "cli": ("master", "agent", "server", "sim", "core", "diagnose", "logclass", "ps", "data",
            "plan", "ckpt", "platform", "wire", "model", "base"),
    "bindings": ("client", "ps", "data", "plan", "model", "base"),
}
PARTS = {"wire": ("core/event.h", "core/record.h", "core/action.h", "core/checkpoint/book.h")}

# Folders of one layer include each other in one direction only; the files at the top of a layer,
# which bind its folders together, do not count, and neither do tests. These includes make cycles.
# The list only gets shorter: an include that no longer is there, or that would make no cycle
# without the other ones, must leave it.
KNOTS: dict[str, tuple[str, ...]] = {
    "cli": (
        "cli/console/console.h -> cli/show/rank_tail.h",
        "cli/console/error_file.h -> cli/run/narrator.h",
        "cli/console/output.cc -> cli/settings/value.h",
        "cli/console/output.h -> cli/flags/flag.h",
        "cli/console/tool.cc -> cli/run/host_facts.h",
        "cli/flags/flag.cc -> cli/settings/value.h",
        "cli/flags/flags_page.cc -> cli/run/flags.h",
        "cli/flags/torchrun_flags.cc -> cli/run/flags.h",
        "cli/flags/torchrun_flags.cc -> cli/settings/value.h",
        "cli/job/remote.cc -> cli/ckpt/rescue.h",
        "cli/run/status_line.cc -> cli/ckpt/rescue.h",
        "cli/settings/config.cc -> cli/run/request.h",
        "cli/settings/settings_page.cc -> cli/run/flags.h",
    ),
}

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
    r'#include "paceline/base/(fd|file_text|host_text|spawn|test_dir|unix_dial)\.h"':
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
    "ps": THREADS | CLOCKS | OUTSIDE,
    "diagnose": THREADS | CLOCKS | OUTSIDE,
    "logclass": THREADS | CLOCKS | OUTSIDE,
    "brain": THREADS | CLOCKS | OUTSIDE,
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


Graph = dict[str, list[str]]  # what each file includes


def room_of(name: str) -> str | None:
    """core/world/room.h: core/world. None: a test, or at the top of its layer."""
    if name.count("/") < 2 or name.endswith("_test.cc") or "/testing/" in name:
        return None
    return name.rsplit("/", 1)[0]


def includes_between_rooms(graph: Graph) -> list[tuple[str, str]]:
    """Pairs of files of one layer: the first, of one folder, includes the second, of another."""
    found: list[tuple[str, str]] = []
    for name, targets in graph.items():
        for target in targets:
            here, there = room_of(name), room_of(target)
            if here and there and here != there and here.split("/")[0] == there.split("/")[0]:
                found.append((name, target))
    return found


def graph_of_rooms(edges: Collection[tuple[str, str]]) -> Graph:
    rooms: Graph = {}
    for edge in edges:
        here, there = (room_of(name) or "" for name in edge)
        rooms.setdefault(here, []).append(there)
        rooms.setdefault(there, [])
    return rooms


def leads_to(rooms: Graph, start: str, goal: str) -> bool:
    seen: set[str] = set()
    left = [start]
    while left:
        room = left.pop()
        if room == goal:
            return True
        if room not in seen:
            seen.add(room)
            left += rooms.get(room, [])
    return False


def check_rooms(graph: Graph, knots: dict[str, tuple[str, ...]]) -> list[str]:
    """No cycle between the folders of a layer, except by the includes that `knots` names."""
    excepted = {text for texts in knots.values() for text in texts}
    between = includes_between_rooms(graph)
    straight = [edge for edge in between if " -> ".join(edge) not in excepted]
    rooms = graph_of_rooms(straight)
    found: list[str] = []
    for layer in sorted({room.split("/")[0] for room in rooms}):
        cycle = find_cycle({room: rooms[room] for room in rooms if room.startswith(f"{layer}/")})
        steps = [next(f"{name} -> {target}" for name, target in straight
                      if (room_of(name), room_of(target)) == step)
                 for step in pairwise(cycle)]
        if steps:
            found.append(f"src/paceline/{layer}:1: folders include each other: {', '.join(steps)}; "
                         "move what both need, perhaps to the top of the layer")
    if found:
        return found
    there = {" -> ".join(edge): edge for edge in between}
    for text in sorted(excepted):
        here, target = (room_of(name) or "" for name in there.get(text, ("", "")))
        if text not in there or not leads_to(rooms, target, here):
            found.append(f"tools/layers.py:1: KNOTS no longer needs '{text}'; remove it")
    return found


def check_rows(root: Path) -> list[str]:
    """No row stands for a layer that is not there."""
    return [f"tools/layers.py:1: ALLOWED has '{layer}', which is no folder"
            for layer in ALLOWED if not (root / "src" / "paceline" / layer).is_dir()]


def check_tree(root: Path, knots: dict[str, tuple[str, ...]]) -> list[str]:
    source = root / "src" / "paceline"
    found: list[str] = []
    graph: Graph = {}
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
    return found + check_rooms(graph, knots)


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
    found = check_tree(root, KNOTS) + check_rows(root)
    found += check_drawing(root, write="--write" in argv)
    print("\n".join(found) if found else "layers: every include follows the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
