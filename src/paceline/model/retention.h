#pragma once

// The order in which a directory's checkpoints were saved, and which folders may be removed. All
// kinds of checkpoint stores use these two decisions.
//
// The order is that of saving, not of step numbers: first the claim on the directory, whose number
// each new writer raises; then the job; then (generation, branch, step). Folders from before there
// were claims have claim 0. Among jobs with the same claim the one in LATEST is the newest, because
// another job may have started anew with lower steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/model/checkpoint.h"

namespace paceline {

struct KeptFolder {
  std::string name;
  bool is_whole = false;   // it has a readable manifest
  bool is_latest = false;  // LATEST names it
  SavedStep saved;         // if it is whole
  std::string job_id;      // if it is whole
  uint64_t claim = 0;      // if it is whole: the number of its writer's claim
  // When it was last written, by the store's clock; for a whole one, its manifest.
  int64_t changed_ns = 0;
};

// Indexes of the whole ones, the last saved first.
inline std::vector<size_t> NewestFirst(std::span<const KeptFolder> folders) {
  using Job = std::pair<uint64_t, std::string_view>;  // a claim, and a job that had it
  struct Facts {
    bool has_latest = false;
    SavedStep newest;
  };
  std::map<Job, Facts> jobs;
  std::vector<size_t> whole;
  for (size_t i = 0; i < folders.size(); ++i) {
    const KeptFolder& one = folders[i];
    if (!one.is_whole) continue;
    whole.push_back(i);
    Facts& facts = jobs[Job(one.claim, one.job_id)];
    facts.has_latest = facts.has_latest || one.is_latest;
    facts.newest = std::max(facts.newest, one.saved);
  }
  const auto age = [&](size_t i) {
    const KeptFolder& one = folders[i];
    const Facts& job = jobs.at(Job(one.claim, one.job_id));
    return std::tuple(one.claim, job.has_latest, job.newest.step, job.newest.generation,
                      std::string_view(one.job_id), one.saved);
  };
  std::sort(whole.begin(), whole.end(), [&](size_t a, size_t b) { return age(a) > age(b); });
  return whole;
}

// Indexes of removable folders: whole ones beyond the newest `keep` (at least one stays), and
// unfinished ones older than the newest. None while there is no whole one, and none with kKeepAll.
inline std::vector<size_t> WhatMayGo(std::span<const KeptFolder> folders, uint32_t keep) {
  const std::vector<size_t> whole = NewestFirst(folders);
  if (whole.empty() || keep >= kKeepAll) return {};
  const int64_t newest_ns = folders[whole.front()].changed_ns;
  const size_t stay = std::min<size_t>(std::max(keep, 1u), whole.size());
  std::vector<size_t> going(whole.begin() + static_cast<std::ptrdiff_t>(stay), whole.end());
  for (size_t i = 0; i < folders.size(); ++i) {
    if (!folders[i].is_whole && folders[i].changed_ns < newest_ns) going.push_back(i);
  }
  return going;
}

}  // namespace paceline
