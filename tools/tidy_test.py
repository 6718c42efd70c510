"""tidy.py must be able to fail: each rule is shown trees that break it and trees that do not."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tidy


class TidyTest(unittest.TestCase):
    def check(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return tidy.check_tree(root)

    def assert_finds(self, files: dict[str, str], part: str) -> None:
        found = self.check(files)
        self.assertTrue(any(part in line for line in found), f"{part!r} not in {found}")

    def test_accepts_a_tidy_tree(self) -> None:
        self.assertEqual(self.check({
            "src/paceline/core/a.cc": "int A() {\n  return 1;\n}\n",
            "src/paceline/core/CMakeLists.txt": "add_layer(core SOURCES a.cc)\n",
            "README.md": "# Paceline\n\n[here](#paceline) [docs](docs/a.md#part-one)\n",
            "docs/a.md": "# Part one\n[up](../README.md) [web](https://example.org/x)\n",
        }), [])

    def test_bounds_files_lines_and_functions(self) -> None:
        self.assert_finds({"a.cc": "int x;\n" * 501}, "501 lines, at most 500")
        self.assert_finds({"a.cc": "x" * 101 + "\n"}, "101 columns")
        self.assert_finds({"a.cc": "int x; \n"}, "space at the end")
        long = "  f();\n" * 59
        self.assert_finds({"a.cc": "void F() {\n" + long + "}\n"}, "a function of 61 lines")
        self.assert_finds({"a.h": "class C {\n  void F() {\n" + long + "  }\n};\n"}, "of 61 lines")
        self.assertEqual(self.check({"a.cc": "void F() {\n" + long[7:] + "}\n"}), [])
        self.assertEqual(self.check({"a.cc": "namespace a {\n" + long + "}  // namespace a\n"}), [])
        self.assert_finds({"a.py": "def f():\n" + "    g()\n" * 60}, "a function of 61 lines")

    def test_ratchet_lets_old_ones_shrink_only(self) -> None:
        tidy.RATCHET["a.cc"] = 600
        try:
            self.assertEqual(self.check({"a.cc": "int x;\n" * 600}), [])
            self.assert_finds({"a.cc": "int x;\n" * 601}, "at most 600")
        finally:
            del tidy.RATCHET["a.cc"]

    def test_a_header_comes_first_in_its_source(self) -> None:
        tree = {"src/a.h": "int A();\n", "src/a.cc": '// A.\n#include "b.h"\n#include "a.h"\n'}
        self.assert_finds(tree, "its first include is not its own header")
        self.assertEqual(self.check({**tree, "src/a.cc": '// A.\n#include "src/a.h"\n'}), [])

    def test_finds_banned_words(self) -> None:
        for name, line in (("a.cc", "// TO" "DO later"), ("a.md", "FIX" "ME"),
                           ("a.py", "import pic" "kle"), ("a.py", "x = ev" "al(text)"),
                           ("a.py", "marsh" "al.loads(b)"), ("a.py", "run(c, shell=Tr" "ue)"),
                           ("a.md", "see /ho" "me/anna/x"), ("a.sh", "cd /wo" "rk/x"),
                           ("a.cc", "using name" "space std;")):
            with self.subTest(line):
                self.assertEqual(len(self.check({name: line + "\n"})), 1)
        self.assertEqual(self.check({"a.py": "model.eval()\nself.ev" "al(x)\n"}), [])

    def test_finds_dead_links(self) -> None:
        self.assert_finds({"a.md": "[x](gone.md)\n"}, "dead link gone.md")
        self.assert_finds({"a.md": "# One\n[x](#two)\n"}, "no heading #two")
        self.assertEqual(self.check({"a.md": "`[x](gone.md)`\n```\n[x](gone.md)\n```\n"}), [])

    def test_finds_files_that_only_a_comment_names(self) -> None:
        there = {"src/core/rule.h": "", "docs/a.md": ""}
        for name, text in (("a.cc", "int x;  // see rules.cc\n"),
                           ("a.h", "/* as in\nmodel/rule.h */\n"),
                           ("a.py", "x = '#'  # docs/b.md says why\n"),
                           ("a.go", "// of rule_more.cc\n"),
                           ("a.proto", "// client/rule.h\n"), ("a.sh", "# runs setup.py\n")):
            with self.subTest(text):
                self.assert_finds({**there, name: text}, "no file ")
        self.assertEqual(self.check({**there, "a.py": "x = '# see gone.py'\n", "a.cc": (
            "// rule.h, core/rule.h, ../docs/a.md; cuda.h is foreign; <name>.cc, x.json\n"
            'int x = Open("// gone.cc");\n')}), [])

    def test_finds_tests_without_an_assertion(self) -> None:
        name = "src/a_test.cc"
        head = "#include <gtest/gtest.h>\n"
        test = "TEST(A, Holds) {\n  Look(1);\n}\n"
        quiet = "template <class F>\nvoid Look(F decode) {\n  decode(1);\n}\n"
        for text in (test, "// EXPECT_EQ\n" + test, 'const char* k = "EXPECT_EQ";\n' + test,
                     test + "TEST_F(A, Other) {\n  EXPECT_TRUE(true);\n}\n", quiet + test):
            with self.subTest(text):
                self.assert_finds({name: head + text}, "A.Holds asserts nothing")
        helper = "void Look(int x) {\n  EXPECT_EQ(x, 1);\n}\n"
        outer = "void Twice(int x) {\n  Look(x);\n}\n"
        for text in (helper + test, helper + outer + test.replace("Look", "Twice"),
                     test.replace("Look(1)", "EXPECT_TRUE(true)")):
            with self.subTest(text):
                self.assertEqual(self.check({name: head + text}), [])

    def test_finds_python_tests_without_an_assertion(self) -> None:
        for body in ("x = f()", "print('assert x')", "job.wait()"):
            with self.subTest(body):
                self.assert_finds({"tests/e2e/test_a.py": f"def test_a():\n    {body}\n"},
                                  ":1: test_a asserts nothing")
        test = "def test_a():\n    job.wait()\n"
        job = {"tests/e2e/job.py": "class Job:\n    def wait(self):\n        raise TimeoutError\n"}
        self.assertEqual(self.check({"tests/e2e/test_a.py": test, **job}), [])
        self.assert_finds({"tests/k8s/test_a.py": test, **job}, "test_a asserts nothing")
        for body in ("assert f()", "with raises(E): f()", "run(c, check=True)", "t.assertEqual(1)",
                     "look(1)"):
            with self.subTest(body):
                self.assertEqual(self.check({"tests/e2e/test_a.py": (
                    f"def test_a():\n    {body}\n\n\ndef look(x):\n    assert x\n")}), [])

    def test_finds_files_that_nobody_builds(self) -> None:
        layer = {"src/paceline/core/CMakeLists.txt": "add_layer(core SOURCES job.cc)\n"}
        self.assert_finds(layer | {"src/paceline/core/job_test.cc": ""}, "nobody builds it")
        self.assert_finds(layer | {"src/paceline/core/detect/job.cc": ""}, "nobody builds it")
        self.assertEqual(self.check(layer | {"src/paceline/core/job.cc": ""}), [])

    def test_finds_files_missing_from_their_registry(self) -> None:
        folder = "src/paceline/core/detect/"
        listed = {folder + "detectors.cc": "kAll = {BadLoss()};\n", folder + "bad_loss.cc": ""}
        self.assertEqual(self.check(listed), [])
        self.assert_finds(listed | {folder + "hang.cc": ""}, "not in the list core/detect")


if __name__ == "__main__":
    unittest.main()
