#!/usr/bin/env python3
"""report.py [test|test-all]: what the last runs tested, by suite, and their ten slowest tests.

Each suite leaves a JUnit file in build/report/test or build/report/test-all; a suite of C++ also
leaves one a test binary in the folder of its name, because ctest knows binaries and not their
cases. Without an argument the slowest tests are those of the half that ran last.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "build" / "report"
HALVES = ("test", "test-all")
SLOWEST = 10


@dataclass(frozen=True)
class Test:
    suite: str
    name: str
    seconds: float
    outcome: str  # passed, skipped or failed


def outcome_of(case: ElementTree.Element) -> str:
    """The outcome in any of the three dialects: pytest's, ctest's and GoogleTest's."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    status = case.get("status", "")
    if case.find("skipped") is not None or case.get("result") == "skipped" or status == "notrun":
        return "skipped"
    return "failed" if status == "fail" else "passed"


def name_of(case: ElementTree.Element) -> str:
    name, group = case.get("name", "?"), case.get("classname", "")
    return name if group in ("", name) else f"{group}.{name}"


def read_tests(file: Path, suite: str) -> list[Test]:
    """The tests of a JUnit file; none when it was cut off, as a killed run leaves it."""
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError:
        return []
    return [Test(suite, name_of(case), float(case.get("time", 0)), outcome_of(case))
            for case in root.iter("testcase") if case.get("result") != "suppressed"]


def read_half(folder: Path) -> list[Test]:
    """All tests of one half. A suite of C++ gives two: its ctest entries and their cases."""
    tests: list[Test] = []
    for file in sorted(folder.glob("*.xml")):
        tests += read_tests(file, file.stem)
        for cases in sorted((folder / file.stem).glob("*.xml")):
            tests += read_tests(cases, f"{file.stem}, cases")
    return tests


def counts(halves: dict[str, list[Test]]) -> list[str]:
    """A line a suite: how many of its tests each half ran, the sum, and what did not pass."""
    suites = sorted({test.suite for tests in halves.values() for test in tests})
    lines = [f"{'suite':<26}" + "".join(f"{half:>10}" for half in HALVES) + f"{'sum':>10}"]
    for suite in suites:
        of_half = [[test for test in halves[half] if test.suite == suite] for half in HALVES]
        every = [test for tests in of_half for test in tests]
        line = f"{suite:<26}" + "".join(f"{len(tests):>10}" for tests in of_half)
        line += f"{len(every):>10}"
        for outcome in ("skipped", "failed"):
            if number := sum(test.outcome == outcome for test in every):
                line += f"  {number} {outcome}"
        lines.append(line)
    return lines


def slowest(tests: list[Test]) -> list[str]:
    """The slowest tests, longest first. A ctest entry is left out if its cases are known."""
    with_cases = {test.suite.removesuffix(", cases") for test in tests
                  if test.suite.endswith(", cases")}
    single = [test for test in tests
              if test.suite not in with_cases or not test.name.endswith(("_test", "_long"))]
    longest = sorted(single, key=lambda test: -test.seconds)[:SLOWEST]
    return [f"{test.seconds:8.1f} s  {test.suite}: {test.name}" for test in longest]


def main(arguments: list[str]) -> int:
    halves = {half: read_half(FOLDER / half) for half in HALVES}
    ran = [half for half in HALVES if halves[half]]
    if not ran:
        print("report: no run has left its results in build/report yet", file=sys.stderr)
        return 1
    newest = max(ran, key=lambda half: max(file.stat().st_mtime
                                           for file in (FOLDER / half).glob("*.xml")))
    half = arguments[0] if arguments else newest
    print(*counts(halves), "", f"The ten slowest tests of make {half}:", *slowest(halves[half]),
          sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
