"""Finds tests that cannot fail: neither they nor a function that they call asserts anything.

A call counts by its name. The names that assert are found in the test's own file, and in the files
without tests of the same layer (C++) or the same folder below tests/ (Python).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# ---- C++ ----
CPP_QUIET = re.compile(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|'
                       r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CPP_ASSERTS = re.compile(r"\b(EXPECT_\w+|ASSERT_\w+|ADD_FAILURE\w*|FAIL|GTEST_SKIP)\b")
CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)\s*\{", re.MULTILINE)
CPP_FUNCTION = re.compile(r"\b(~?\w+)\((?:[^;{}()]|\([^;{}()]*\))*\)\s*"
                          r"(?:const\s*)?(?:override\s*)?"
                          r"(?::[^;{}]*(?:\{[^{}]*\}[^;{}]*)*)?\{")
CPP_LAMBDA = re.compile(r"\b(\w+) = \[[^\]]*\][^;{}]*\{")
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "TEST", "TEST_F", "TEST_P"}

Bodies = dict[str, list[str]]


def bare_cpp(text: str) -> str:
    """The text without comments and without what stands in quotes."""
    def blank(match: re.Match[str]) -> str:
        return '""' if match[0][0] in "\"'" else re.sub(r"[^\n]", " ", match[0])
    return CPP_QUIET.sub(blank, text)


def body_at(text: str, brace: int) -> str:
    """From this brace to the one that closes it."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, brace):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return text[brace:match.end()]
    return text[brace:]


def cpp_bodies(text: str) -> Bodies:
    found: Bodies = {}
    for pattern in (CPP_FUNCTION, CPP_LAMBDA):
        for match in pattern.finditer(text):
            if match[1] not in NOT_FUNCTIONS:
                found.setdefault(match[1], []).append(body_at(text, match.end() - 1))
    return found


def asserting_cpp(bodies: Bodies, known: set[str]) -> set[str]:
    """The known names, and those of functions that assert or call one of them."""
    names = set(known)
    while True:
        more = {name for name, all_of in bodies.items()
                if name not in names and any(asserts_cpp(body, names) for body in all_of)}
        if not more:
            return names
        names |= more


def asserts_cpp(body: str, names: set[str]) -> bool:
    if CPP_ASSERTS.search(body):
        return True
    return any(called in names for called in re.findall(r"\b(\w+)(?:<[^;(){}]*>)?[({]", body))


def room_of(name: str) -> str:
    """src/paceline/core/world/room_test.cc: src/paceline/core; tests/e2e/job.py: tests/e2e."""
    parts = name.split("/")[:-1]
    return "/".join(parts[:3] if name.startswith("src/") else parts[:2])


def by_room(names: Iterable[str]) -> dict[str, list[str]]:
    rooms: dict[str, list[str]] = {}
    for name in names:
        rooms.setdefault(room_of(name), []).append(name)
    return rooms


def check_cpp(texts: dict[str, str]) -> Iterator[str]:
    """`texts`: C++ files by name."""
    bare = {name: bare_cpp(text) for name, text in texts.items() if "gtest" in text}
    for names in by_room(bare).values():
        shared: Bodies = {}
        for name in names:
            if not name.endswith("_test.cc"):
                for function, bodies in cpp_bodies(bare[name]).items():
                    shared.setdefault(function, []).extend(bodies)
        known = asserting_cpp(shared, set())
        for name in names:
            if name.endswith("_test.cc"):
                yield from check_cpp_file(name, bare[name], known)


def check_cpp_file(name: str, bare: str, known: set[str]) -> Iterator[str]:
    names = asserting_cpp(cpp_bodies(bare), known)
    for match in CPP_TEST.finditer(bare):
        if not asserts_cpp(body_at(bare, match.end() - 1), names):
            number = bare.count("\n", 0, match.start()) + 1
            yield f"{name}:{number}: {match[1]}.{match[2]} asserts nothing; compare a result"


# ---- Python ----
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Known:
    """What is asked of a function again and again."""
    name: str
    line: int
    asserts: bool
    calls: frozenset[str]


def look_at(function: Function, *, is_shared: bool) -> Known:
    asserts, calls = False, set[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            calls.add(name_called(node))
            asserts = asserts or is_checked(node)
        asserts = asserts or isinstance(node, ast.Assert)
        asserts = asserts or (is_shared and isinstance(node, ast.Raise) and raises_failure(node))
    return Known(function.name, function.lineno, asserts, frozenset(calls))


def name_called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def is_checked(call: ast.Call) -> bool:
    """A call that fails the test by itself: self.assertEqual, pytest.raises, run(check=True)."""
    name = name_called(call)
    return name.startswith("assert") or name in ("raises", "warns", "fail") or any(
        word.arg == "check" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords)


def raises_failure(node: ast.Raise) -> bool:
    call = node.exc
    named = call.func if isinstance(call, ast.Call) else call
    return isinstance(named, ast.Name) and named.id in ("AssertionError", "TimeoutError")


def asserting_python(functions: list[Known], known: set[str]) -> set[str]:
    names = set(known)
    while True:
        more = {one.name for one in functions if one.name not in names
                and (one.asserts or not names.isdisjoint(one.calls))}
        if not more:
            return names
        names |= more


def is_python_test(name: str) -> bool:
    file = name.rsplit("/", 1)[-1]
    return file.startswith("test_") or file.endswith("_test.py")


def check_python(texts: dict[str, str]) -> Iterator[str]:
    """`texts`: Python files by name."""
    found: dict[str, list[Known]] = {}
    for name, text in texts.items():
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # tidy.py says so
        is_shared = not is_python_test(name)
        found[name] = [look_at(node, is_shared=is_shared) for node in ast.walk(tree)
                       if isinstance(node, Function)]
    for room in by_room(found).values():
        shared = [one for name in room if not is_python_test(name) for one in found[name]]
        known = asserting_python(shared, set())
        for name in room:
            if is_python_test(name):
                yield from check_python_file(name, found[name], known)


def check_python_file(name: str, functions: list[Known], known: set[str]) -> Iterator[str]:
    names = asserting_python(functions, known)
    for one in functions:
        if one.name.startswith("test_") and one.name not in names:
            yield f"{name}:{one.line}: {one.name} asserts nothing; compare a result"
