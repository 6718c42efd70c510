"""report.py counts what each half ran, and lists a slow case instead of its whole binary."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import report

CTEST = """<testsuite><testcase name="wire_test" classname="wire_test" time="9" status="run"/>
<testcase name="format" classname="format" time="1" status="notrun"><skipped/></testcase>
<testcase name="tidy" classname="tidy" time="2" status="fail"><failure/></testcase></testsuite>"""
CASES = """<testsuites><testsuite><testcase name="Ends" classname="Relay" time="8" status="run"
result="completed"/></testsuite></testsuites>"""


class ReportTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "units").mkdir()
        (self.folder / "units.xml").write_text(CTEST, encoding="utf-8")
        (self.folder / "units" / "wire_test.xml").write_text(CASES, encoding="utf-8")

    def test_counts_entries_cases_and_what_did_not_pass(self) -> None:
        lines = report.counts({"test": report.read_half(self.folder), "test-all": []})
        self.assertEqual(lines[1].split(), ["units", "3", "0", "3", "1", "skipped", "1", "failed"])
        self.assertEqual(lines[2].split(), ["units,", "cases", "1", "0", "1"])

    def test_lists_cases_instead_of_their_binary(self) -> None:
        lines = report.slowest(report.read_half(self.folder))
        self.assertEqual([line.split()[-1] for line in lines], ["Relay.Ends", "tidy", "format"])

    def test_a_file_that_was_cut_off_counts_nothing(self) -> None:
        (self.folder / "pytest.xml").write_text("<testsuites><test", encoding="utf-8")
        self.assertEqual(len(report.read_half(self.folder)), 4)


if __name__ == "__main__":
    unittest.main()
