#pragma once

// MARK("ladder exhausted") names a situation that tests must reach. The simulator lists marks that
// no run reached: a fault is missing, or the code is dead.
//
// The linker collects a program's marks into one array, so a mark is known before it is reached,
// and nothing runs at start-up. A hit is one relaxed increment. Use it in .cc files, in plain
// functions: a template or inline function would share its mark between files.

#include <atomic>
#include <cstdint>
#include <span>

namespace paceline {

struct Mark {
  const char* name;
  const char* file;
  int line;
  std::atomic<uint64_t> hits;
};

// All marks of this program, in link order. Marks with one name at several places are separate.
std::span<Mark* const> AllMarks();

// Sets every count back to 0, for the next run.
void ClearMarks();

}  // namespace paceline

#define MARK(mark_name)                                                                     \
  do {                                                                                      \
    static constinit ::paceline::Mark paceline_mark{mark_name, __FILE__, __LINE__, 0};      \
    [[gnu::used, gnu::section("paceline_marks")]] static ::paceline::Mark* paceline_entry = \
        &paceline_mark;                                                                     \
    paceline_mark.hits.fetch_add(1, std::memory_order_relaxed);                             \
  } while (false)
