#!/usr/bin/env python3
"""Style as a test. One line a finding with what to do instead; exit 1 when there is one.

    tools/tidy.py        check every file that git knows or would add

RATCHET lists what was too long when its rule came; such a file may shrink but never grow.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import assertions

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LINE_COLUMNS_MAX = 100
RATCHET: dict[str, int] = {}

CODE = (".h", ".cc", ".py", ".pyi", ".cmake", ".sh", ".proto")
TEXT = (*CODE, ".md", ".txt", ".toml", ".yml", ".yaml", ".json", ".js", ".css", ".html")

# A folder whose .cc files all stand in one explicit list. Keys are folders under src/paceline.
REGISTRIES = {
    "core/detect": "detectors.cc",
    "core/recover": "ladder.cc",
    "ckpt/store": "stores.cc",
    "ckpt/format": "formats.cc",
    "platform": "platforms.cc",
    "sim/fault": "faults.cc",
    "sim/check": "checks.cc",
    "cli": "commands.cc",
}

# Written in two halves, so that this file does not find itself.
BANNED = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b"), TEXT,
     "say what is so today, or open an issue and name its number in a sentence"),
    (re.compile(r"(?<![\w/.])(/ho" r"me/(?!u\b|you\b)\w|/ro" r"ot/|/wo" r"rk/|/User" r"s/\w)"),
     TEXT, "a path of one machine; use a relative path or a variable"),
    (re.compile(r"\b(pic" r"kle|dill|marsh" r"al)\.loads?\b|^\s*(import|from) pic" r"kle\b"),
     (".py",), "loading it runs code; use json, struct or safetensors"),
    (re.compile(r"(?<![\w.])(ev" r"al|ex" r"ec)\("), (".py",), "text must not become code"),
    (re.compile(r"\bshell=Tr" r"ue\b|\bos\.sys" r"tem\("), (".py",), "pass a list of arguments"),
    (re.compile(r"\busing name" r"space std\b"), (".h", ".cc"), "name what you use"),
]
# Where a rule does not hold: (rule's reason, path prefix) with the reason why.
EXCEPTIONS = {
    # The starter runs the user's script as __main__; that is its purpose.
    ("text must not become code", "python/paceline/"),
    # Hostile inputs and fuzz corpora contain anything.
    ("*", "tests/fuzz/corpus/"),
}


def files_of(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        names = listing.stdout.split("\0")
    else:  # an unpacked archive
        names = [p.relative_to(root).as_posix() for p in root.rglob("*")]
        names = [n for n in names if not n.startswith(("build/", ".venv/", "runs/", ".git/"))]
    return sorted(n for n in names if n and (root / n).is_file() and not (root / n).is_symlink())


def read(root: Path, name: str) -> str | None:
    try:
        return (root / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def is_excepted(reason: str, name: str) -> bool:
    return any(name.startswith(p) for r, p in EXCEPTIONS if r in (reason, "*"))


def check_words(name: str, text: str) -> Iterator[str]:
    rules = [(p, why) for p, kinds, why in BANNED
             if name.endswith(kinds) and not is_excepted(why, name)]
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in rules:
            match = pattern.search(line)
            if match:
                yield f"{name}:{number}: '{match[0].strip()}': {why}"


def check_lengths(name: str, text: str) -> Iterator[str]:
    if not name.endswith(CODE) or name.startswith("third_party/"):
        return
    lines = text.splitlines()
    bound = RATCHET.get(name, FILE_LINES_MAX)
    if len(lines) > bound:
        yield f"{name}:{bound}: {len(lines)} lines, at most {bound}; split it by subject"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield f"{name}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}; break it"
        if line.endswith((" ", "\t")):
            yield f"{name}:{number}: space at the end of the line; remove it"


def check_functions(name: str, text: str) -> Iterator[str]:
    """Functions by layout, as clang-format leaves it: a head at the margin or a method's indent
    that ends in '{', and the first '}' of that same indent."""
    if name.endswith((".cc", ".h")):
        head = re.compile(r"^( *)(?!namespace|class|struct|enum|union|extern|//|\*|#|}|else)"
                          r"[\w~].*\)?.*\{$")
        start, indent, title = 0, "", ""
        for number, line in enumerate(text.splitlines(), 1):
            match = head.match(line)
            if not start and match and len(match[1]) <= 2:
                start, indent, title = number, match[1], line.strip()
            elif start and re.match(re.escape(indent) + r"\}", line):
                length = number - start + 1
                if length > FUNCTION_LINES_MAX and "(" in title:
                    yield (f"{name}:{start}: a function of {length} lines, at most "
                           f"{FUNCTION_LINES_MAX}; name its parts")
                start = 0
    elif name.endswith(".py"):
        yield from check_python_functions(name, text)


def check_python_functions(name: str, text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"{name}:{error.lineno}: does not parse: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield (f"{name}:{node.lineno}: a function of {length} lines, at most "
                       f"{FUNCTION_LINES_MAX}; name its parts")


def anchors_of(text: str) -> set[str]:
    """GitHub's anchors of a Markdown file's headings."""
    found: set[str] = set()
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        match = re.match(r"#+ +(.*)", line)
        if match and not fenced:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
            slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
            found.add(slug)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def check_links(root: Path, name: str, text: str) -> Iterator[str]:
    if not name.endswith(".md"):
        return
    bare = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
    bare = re.sub(r"`[^`\n]*`", "", bare)
    for match in re.finditer(r"\]\(<?([^)\s>]+)>?[^)]*\)", bare):
        link = match[1]
        if re.match(r"[a-z]+:", link):
            continue
        number = bare.count("\n", 0, match.start()) + 1
        path, _, anchor = link.partition("#")
        target = (root / name).parent / path if path else root / name
        if not target.exists():
            yield f"{name}:{number}: dead link {link}"
        elif not anchor or target.suffix != ".md":
            continue
        elif anchor not in anchors_of(target.read_text(encoding="utf-8")):
            yield f"{name}:{number}: no heading #{anchor} in {path or name}"


def check_listed(root: Path, names: list[str]) -> Iterator[str]:
    """Every C++ file of a layer stands in the CMakeLists.txt of that layer."""
    lists: dict[str, str] = {}
    for name in names:
        match = re.match(r"src/paceline/(\w+)/(.+\.(?:cc|h))$", name)
        if not match:
            continue
        layer, file = match[1], match[2]
        if layer not in lists:
            path = root / "src" / "paceline" / layer / "CMakeLists.txt"
            lists[layer] = path.read_text(encoding="utf-8") if path.exists() else ""
        if lists[layer] and not re.search(rf"(?<![\w./-]){re.escape(file)}(?![\w.])", lists[layer]):
            yield f"{name}:1: not in src/paceline/{layer}/CMakeLists.txt, so nobody builds it"


def check_own_header(root: Path, names: list[str]) -> Iterator[str]:
    """X.cc begins with X.h: so every header is compiled once before any other."""
    for name in names:
        header = re.sub(r"\.cc$", ".h", name)
        if not name.endswith(".cc") or header not in names:
            continue
        first = re.search(r'^#include +[<"]([^>"]+)', read(root, name) or "", re.MULTILINE)
        if first is None or not f"/{header}".endswith(f"/{first[1]}"):
            yield f"{name}:1: its first include is not its own header"


def check_registries(root: Path, names: list[str]) -> Iterator[str]:
    """Every file of a registry folder is named, by its stem, in the list of that folder."""
    for folder, register in REGISTRIES.items():
        path = root / "src" / "paceline" / folder / register
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        for name in names:
            # The commands of cli stand in its rooms.
            rooms = r"(?:\w+/)?" if folder == "cli" else ""
            match = re.fullmatch(rf"src/paceline/{folder}/{rooms}(\w+)\.cc", name)
            if not match or match[1].endswith("_test") or name.endswith("/" + register):
                continue
            # In cli only the files with a handler are commands; the others serve all of them.
            handler = re.search(r"^int Run\w+\(Invocation&", read(root, name) or "", re.MULTILINE)
            if folder == "cli" and not handler:
                continue
            stem = match[1]
            pascal = stem.replace("_", "").lower()
            if f"{stem}.h" not in text and pascal not in text.replace("_", "").lower():
                yield f"{name}:1: not in the list {folder}/{register}"


# Files that other projects have. Their names may stand in comments.
FOREIGN_FILES = re.compile(r"(torch|linux)/.*|cuda\.h|sched\.h")
FILE_NAME = re.compile(r"(?<![\w/.<{*-])(?:\.{1,2}/)*((?:[\w-]+/)*[\w-]+"
                       r"\.(?:h|cc|py|pyi|md|proto|cmake|sh|go))(?![\w/*-]|\.\w)")
QUOTED = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
SLASHED = re.compile(QUOTED + r"|`[^`]*`|//[^\n]*|/\*.*?\*/", re.DOTALL)
HASHED = re.compile(r'"""(?:\\.|[^\\])*?"""|' + QUOTED + r"|(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
LINES = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)


def comments_of(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The comments of a file with the number of their first line."""
    if name.endswith((".h", ".cc", ".proto", ".go", ".js")):
        pattern = SLASHED
    elif name.endswith((".py", ".pyi")):
        pattern = HASHED
    elif name.endswith((".sh", ".cmake", "CMakeLists.txt", "Makefile")):
        pattern = LINES
    else:
        return
    for match in pattern.finditer(text):
        if match[0].startswith(("//", "/*", "#")):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def check_named_files(name: str, text: str, ends: set[str]) -> Iterator[str]:
    """A file that a comment names exists. `ends`: what the path of a file may end with."""
    if name.startswith("third_party/"):
        return
    for number, comment in comments_of(name, text):
        for match in FILE_NAME.finditer(comment):
            if match[1] not in ends and not FOREIGN_FILES.fullmatch(match[1]):
                yield f"{name}:{number}: no file {match[1]}; name the one that is meant"


def ends_of(names: list[str]) -> set[str]:
    """a/b/c.h: "a/b/c.h", "b/c.h" and "c.h"."""
    return {name.split("/", cut)[-1] for name in names for cut in range(name.count("/") + 1)}


def check_assertions(root: Path, names: list[str]) -> Iterator[str]:
    """No test passes whatever happens."""
    cpp = [name for name in names if name.endswith((".cc", ".h"))]
    yield from assertions.check_cpp({name: read(root, name) or "" for name in cpp})
    python = [name for name in names if name.endswith(".py") and "/scripts/" not in name
              and (name.startswith("tests/") or name.endswith("_test.py"))]
    yield from assertions.check_python({name: read(root, name) or "" for name in python})


def check_tree(root: Path) -> list[str]:
    names = files_of(root)
    ends = ends_of(names)
    found: list[str] = []
    for name in names:
        is_text = name.endswith((*TEXT, ".go", "CMakeLists.txt", "Makefile"))
        text = read(root, name) if is_text else None
        if text is None:
            continue
        found += check_words(name, text)
        found += check_lengths(name, text)
        found += check_functions(name, text)
        found += check_links(root, name, text)
        found += check_named_files(name, text, ends)
    found += check_assertions(root, names)
    found += check_listed(root, names)
    found += check_own_header(root, names)
    found += check_registries(root, names)
    return found


def main() -> int:
    found = check_tree(Path(__file__).resolve().parent.parent)
    print("\n".join(found) if found else "tidy: nothing to tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
