#pragma once

// Which checkpoint of a directory is the newest, and which folders may go: two decisions that
// everything which keeps checkpoints shares, whatever it keeps them in.
//
// What LATEST names is the newest, because another job may have begun anew with lower steps; but
// for what the same job has saved later, whose commit was cut off before LATEST. Then the higher
// step, then the newer world.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/model/checkpoint.h"

namespace paceline {

struct KeptFolder {
  std::string name;
  bool is_whole = false;   // it has a whole manifest
  bool is_latest = false;  // LATEST names it
  SavedStep saved;         // of a whole one
  std::string job_id;      // likewise
  // When it was last written, on the clock of whoever keeps it; for a whole one its manifest.
  int64_t changed_ns = 0;
};

inline bool IsNewerKept(const KeptFolder& a, const KeptFolder& b) {
  if (a.is_latest != b.is_latest) return a.is_latest;
  if (a.saved.step != b.saved.step) return a.saved.step > b.saved.step;
  return a.saved.generation > b.saved.generation;
}

// Which of them is the newest: its name; "" when LATEST names none that is whole.
inline std::string LatestOf(std::span<const KeptFolder> folders) {
  const KeptFolder* latest = nullptr;
  for (const KeptFolder& one : folders) {
    if (one.is_whole && one.is_latest) latest = &one;
  }
  if (latest == nullptr) return "";
  for (const KeptFolder& one : folders) {
    if (one.is_whole && one.job_id == latest->job_id && one.saved > latest->saved) latest = &one;
  }
  return latest->name;
}

// Indexes of what may go: whole ones beyond the newest `keep` (at least one stays), and unfinished
// ones that were left before the newest was made. While there is no whole one, nothing may.
inline std::vector<size_t> WhatMayGo(std::span<const KeptFolder> folders, uint32_t keep) {
  std::vector<size_t> whole;
  for (size_t i = 0; i < folders.size(); ++i) {
    if (folders[i].is_whole) whole.push_back(i);
  }
  if (whole.empty()) return {};
  std::sort(whole.begin(), whole.end(),
            [&](size_t a, size_t b) { return IsNewerKept(folders[a], folders[b]); });
  const int64_t newest_ns = folders[whole.front()].changed_ns;
  const size_t stay = std::min<size_t>(std::max(keep, 1u), whole.size());
  std::vector<size_t> going(whole.begin() + static_cast<std::ptrdiff_t>(stay), whole.end());
  for (size_t i = 0; i < folders.size(); ++i) {
    if (!folders[i].is_whole && folders[i].changed_ns < newest_ns) going.push_back(i);
  }
  return going;
}

}  // namespace paceline
