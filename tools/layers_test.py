"""layers.py must be able to fail: each rule is shown trees that break it and trees that do not."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import layers


class LayersTest(unittest.TestCase):
    def check(self, *excepted: str, **files: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                path = root / "src" / "paceline" / name.replace("__", "/").replace("_h", ".h")
                path = path.with_suffix(path.suffix or ".cc")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return layers.check_tree(root, {"core": excepted})

    def test_accepts_what_the_table_allows(self) -> None:
        self.assertEqual(self.check(core__job='#include "paceline/model/world.h"\n',
                                    model__world_h="#include <vector>\n"), [])

    def test_finds_an_edge_outside_the_table(self) -> None:
        found = self.check(model__world_h='#include "paceline/core/job.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("model may include only base", found[0])

    def test_shows_wire_only_the_contracts_of_core(self) -> None:
        self.assertEqual(self.check(wire__a='#include "paceline/core/event.h"\n'), [])
        self.assertTrue(self.check(wire__a='#include "paceline/core/job.h"\n'))

    def test_keeps_the_transport_in_wire(self) -> None:
        self.assertEqual(self.check(wire__a="#include <grpcpp/grpcpp.h>\n"), [])
        self.assertTrue(self.check(master__a="#include <grpcpp/grpcpp.h>\n"))
        self.assertTrue(self.check(agent__a='#include "paceline/v1/master.pb.h"\n'))

    def test_finds_a_folder_without_a_row(self) -> None:
        self.assertIn("not in layers.py", self.check(helpers__a="")[0])

    def test_finds_a_cycle_of_files(self) -> None:
        found = self.check(core__a_h='#include "paceline/core/b.h"\n',
                           core__b_h='#include "paceline/core/c.h"\n',
                           core__c_h='#include "paceline/core/a.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("core/a.h -> core/b.h -> core/c.h -> core/a.h", found[0])

    def test_finds_a_cycle_of_folders(self) -> None:
        there = '#include "paceline/core/detect/a.h"\n'
        back = '#include "paceline/core/world/b.h"\n'
        tree = {"core__detect__a_h": "", "core__world__b_h": "", "core__world__c": there}
        self.assertEqual(self.check(**tree), [])
        (found,) = self.check(**tree, core__detect__d=back)
        self.assertIn("core/world/c.cc -> core/detect/a.h", found)
        self.assertIn("core/detect/d.cc -> core/world/b.h", found)
        self.assertEqual(self.check(**tree, core__d=back), [], "the top of a layer binds it")
        self.assertEqual(self.check(**tree, core__detect__d_test=back), [], "a test may look")

    def test_excepts_cycles_that_have_a_name(self) -> None:
        name = "core/detect/d.cc -> core/world/b.h"
        there = '#include "paceline/core/detect/a.h"\n'
        back = '#include "paceline/core/world/b.h"\n'
        tree = {"core__detect__a_h": "", "core__world__b_h": "", "core__detect__d": back}
        self.assertEqual(self.check(name, **tree, core__world__c=there), [])
        self.assertTrue(self.check(name, **tree, core__world__c=there, core__detect__e=back))
        (found,) = self.check(name, **tree)
        self.assertIn("no longer needs 'core/detect/d.cc", found, "nothing leads back")
        (found,) = self.check(name, core__world__c=there, core__detect__a_h="")
        self.assertIn("no longer needs 'core/detect/d.cc", found, "it is gone")

    def test_finds_a_row_without_a_folder(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for layer in layers.ALLOWED:
                (Path(folder) / "src" / "paceline" / layer).mkdir(parents=True)
            self.assertEqual(layers.check_rows(Path(folder)), [])
            (Path(folder) / "src" / "paceline" / "core").rmdir()
            self.assertEqual(len(layers.check_rows(Path(folder))), 1)

    def test_finds_every_banned_word_in_pure_code(self) -> None:
        for line in ("#include <thread>", "std::mutex m;", "#include <filesystem>",
                     "#include <iostream>", "#include <unordered_map>",
                     "auto t = std::chrono::steady_clock::now();", "absl::Now();",
                     "std::random_device d;", "std::mt19937 g;", "std::shuffle(a, b, g);",
                     "std::uniform_int_distribution<int> d;", 'getenv("X");',
                     "static int count = 0;", "  static std::map<int, int> seen;",
                     "thread_local int x;", '#include "paceline/base/spawn.h"',
                     '#include "paceline/base/log.h"'):
            with self.subTest(line):
                self.assertTrue(self.check(core__a=line + "\n"), line)
                self.assertEqual(self.check(agent__a=line + "\n"), [])

    def test_lets_constants_functions_comments_and_text_pass(self) -> None:
        self.assertEqual(self.check(core__a="""
            static constexpr int kMax = 3;
            static const std::string kName = "x";
            static int Twice(int n) { return 2 * n; }
            static Duration Backoff(int n);
            // a std::mutex would be wrong here, and so would steady_clock
            /* #include <thread> */
        """), [])

    def test_draws_the_table_and_compares_the_copy(self) -> None:
        self.assertIn("  model --> base", layers.draw(["base", "model"]).splitlines())
        whole = layers.draw(layers.ALLOWED).splitlines()
        self.assertNotIn("  core --> model", whole)  # data and plan imply it
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            document = root / "ARCHITECTURE.md"
            document.write_text(f"a\n{layers.BEGIN}\nold\n{layers.END}\nz\n", encoding="utf-8")
            self.assertTrue(layers.check_drawing(root, write=False))
            self.assertEqual(layers.check_drawing(root, write=True), [])
            self.assertEqual(layers.check_drawing(root, write=False), [])
            self.assertTrue(document.read_text(encoding="utf-8").endswith("z\n"))


if __name__ == "__main__":
    unittest.main()
