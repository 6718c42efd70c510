#include "paceline/sim/table/table_server.h"

#include <algorithm>

#include "paceline/base/check.h"
#include "paceline/ps/partition_image.h"

namespace paceline::sim {
namespace {

constexpr size_t kFilesKept = 2;

IntervalSet InBoth(const IntervalSet& one, const IntervalSet& other) {
  IntervalSet both = one;
  for (const OrdinalRange& range : one.Ranges()) {
    for (uint64_t i = range.begin; i < range.end; ++i) {
      if (!other.Covers({i, i + 1})) both.Remove({i, i + 1});
    }
  }
  return both;
}

}  // namespace

SimTableServer::SimTableServer(uint32_t number, uint64_t of_process, const RoutingNews& news,
                               TableDisk* disk)
    : share({.server = number, .generation = of_process}, &holding),
      server(number),
      generation(of_process),
      disk_(*disk) {
  const auto opened = holding.Open(
      {.name = "counts", .dim = 1, .optimizer = {.name = "sgd", .rate = 1}, .scale = 0});
  CHECK(opened.ok(), "the table opens");
  share.Begin(news);
  heard = news.id;
}

IntervalSet SimTableServer::Load(uint64_t set) {
  holding.Keep(share.own());
  next_file = disk_.last() + 1;
  ps::PartitionBits missing = share.own();
  IntervalSet common;
  bool is_first = true;
  for (auto file = disk_.files.rbegin(); file != disk_.files.rend() && missing.any(); ++file) {
    for (const auto& [partition, image] : file->second.images) {
      if (!missing.test(partition)) continue;
      CHECK(holding.LoadPartition(image).ok(), "an image loads");
      missing.reset(partition);
      const IntervalSet& applied = holding.Applied(partition, set);
      if (is_first || applied != common) common = is_first ? applied : InBoth(common, applied);
      is_first = false;
    }
  }
  return missing.none() ? common : IntervalSet();
}

void SimTableServer::Save(TableCanary canary, uint64_t set) {
  TableDisk::File file{.server = server, .images = {}};
  for (uint32_t i = 0; i < ps::kPartitions; ++i) {
    if (share.own().test(i)) file.images[i] = holding.SavePartition(i);
  }
  if (canary == TableCanary::kPositionLater) {
    // The rows are those of the copy before, and the position is the present one.
    const auto now = file.images;
    for (auto& [partition, image] : file.images) {
      const auto rows = half_.find(partition);
      if (rows == half_.end()) continue;
      ps::PartitionImage old = *ps::ReadImage(rows->second);
      old.applied[set] = holding.Applied(partition, set);
      if (old.applied[set].empty()) old.applied.erase(set);
      image = ps::WriteImage(old);
    }
    half_ = now;
  }
  disk_.files.emplace(next_file++, std::move(file));
  Prune();
}

void SimTableServer::Prune() {
  std::vector<size_t> newer(ps::kPartitions, 0);
  size_t own = 0;
  for (auto at = disk_.files.end(); at != disk_.files.begin();) {
    --at;
    const auto& images = at->second.images;
    const bool is_covered = std::all_of(images.begin(), images.end(), [&](const auto& one) {
      return newer[one.first] >= kFilesKept;
    });
    for (const auto& [partition, image] : images) ++newer[partition];
    if (at->second.server != server || ++own <= kFilesKept) continue;
    if (is_covered) at = disk_.files.erase(at);
  }
}

}  // namespace paceline::sim
