#include "paceline/agent/hang/flight_rings.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "paceline/agent/memory/arena_shelf.h"
#include "paceline/base/fd.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr std::string_view kRingPrefix = "rank-";

// The first bytes of a file, in aligned memory. Read and not mapped, so that a truncated file
// cannot crash the reader.
class Bytes {
 public:
  Bytes(const std::string& path, size_t size) : words_(size / sizeof(uint64_t)) {
    // O_NONBLOCK: a pipe in the place of a ring would stop the agent.
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    size_t done = 0;
    auto* to = reinterpret_cast<char*>(words_.data());
    while (fd.is_open() && done < size) {
      const ssize_t got = ::pread(fd.get(), to + done, size - done, static_cast<off_t>(done));
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    is_whole_ = done == size;
  }
  std::span<const std::byte> span() const {
    return is_whole_ ? std::as_bytes(std::span(words_)) : std::span<const std::byte>();
  }

 private:
  std::vector<uint64_t> words_;
  bool is_whole_ = false;
};

}  // namespace

FlightRings::FlightRings(const Place& place)
    : folder_(Concat(place.root, "/", place.node)),
      suffix_(Concat(".", place.mark, ".ring")),
      root_(place.root) {
  const absl::Status made = MakeArenaFolder(place.root, place.node);
  if (made.ok()) return;
  LogWarning("flight_rings", {{"why", made}});
  folder_.clear();
}

FlightRings::~FlightRings() {
  if (!is_over_ || folder_.empty()) return;
  if (!page_.empty()) {
    std::error_code failed;  // then the page is lost, which only `plan --show` reads later
    std::filesystem::copy_file(page_, last_page_, std::filesystem::copy_options::overwrite_existing,
                               failed);
    ::unlink(page_.c_str());
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), &::closedir);
  while (const dirent* entry = folder == nullptr ? nullptr : ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    const bool is_ring =
        name.starts_with(kRingPrefix) && name.find(suffix_) != std::string_view::npos;
    if (!is_ring) continue;
    ::unlink(Concat(folder_, "/", name).c_str());
  }
  // Fails if other files are in them.
  ::rmdir(folder_.c_str());
  ::rmdir(root_.c_str());
}

std::string FlightRings::PathOf(uint32_t local_rank) const {
  return folder_.empty() ? "" : Concat(folder_, "/", kRingPrefix, local_rank, suffix_);
}

std::optional<RingPulse> FlightRings::Pulse(uint32_t local_rank, Generation generation) const {
  if (folder_.empty()) return std::nullopt;
  const Bytes bytes(PathOf(local_rank), kRingHeaderBytes);
  const std::optional<RingPulse> pulse = ReadPulse(bytes.span(), nullptr);
  const bool is_of_it = pulse.has_value() && pulse->generation == generation.value();
  return is_of_it ? pulse : std::nullopt;
}

std::optional<FlightReading> FlightRings::Read(uint32_t local_rank, Generation generation) const {
  if (folder_.empty()) return std::nullopt;
  const Bytes bytes(PathOf(local_rank), kRingBytes);
  std::optional<FlightReading> reading = ReadRing(bytes.span(), nullptr);
  const bool is_of_it = reading.has_value() && reading->pulse.generation == generation.value();
  return is_of_it ? std::move(reading) : std::nullopt;
}

std::optional<FlightRings::NextRing> FlightRings::ReadFrom(uint32_t rank) const {
  struct Known {
    uint64_t generation = 0;
    std::string path;
  };
  std::map<int64_t, Known> known;  // of each rank the newest
  std::error_code failed;
  // No range-for: its increment throws if the file system fails, on a thread that catches nothing.
  std::filesystem::directory_iterator file(folder_, failed);
  for (; !failed && file != std::filesystem::directory_iterator(); file.increment(failed)) {
    const std::string name = file->path().filename().string();
    if (!name.starts_with(kRingPrefix) || !name.ends_with(suffix_)) continue;
    const Bytes bytes(file->path().string(), kRingHeaderBytes);
    const std::optional<RingPulse> pulse = ReadPulse(bytes.span(), nullptr);
    if (!pulse.has_value() || pulse->rank < int64_t{rank}) continue;
    Known& of_rank = known[pulse->rank];
    if (!of_rank.path.empty() && of_rank.generation > pulse->generation) continue;
    of_rank = {pulse->generation, file->path().string()};
  }
  for (auto next = known.begin(); next != known.end(); ++next) {
    const Bytes bytes(next->second.path, kRingBytes);
    std::optional<FlightReading> reading = ReadRing(bytes.span(), nullptr);
    // Another rank may have begun there since.
    if (!reading.has_value() || reading->pulse.rank != next->first) continue;
    return NextRing{*std::move(reading), std::next(next) != known.end()};
  }
  return std::nullopt;
}

std::vector<HostRing> ReadHostRings(const std::string& root) {
  std::map<int64_t, HostRing> newest;
  std::error_code failed;
  for (const auto& node : std::filesystem::directory_iterator(root, failed)) {
    std::error_code unreadable;
    for (const auto& file : std::filesystem::directory_iterator(node.path(), unreadable)) {
      const std::string name = file.path().filename().string();
      if (!name.starts_with(kRingPrefix) || !name.ends_with(".ring")) continue;
      const Bytes bytes(file.path().string(), kRingBytes);
      std::optional<FlightReading> reading = ReadRing(bytes.span(), nullptr);
      if (!reading.has_value()) continue;
      const auto known = newest.find(reading->pulse.rank);
      const bool is_older = known != newest.end() &&
                            reading->pulse.generation < known->second.reading.pulse.generation;
      if (is_older) continue;
      newest[reading->pulse.rank] = {node.path().filename().string(), *std::move(reading)};
    }
  }
  std::vector<HostRing> rings;
  for (auto& [rank, ring] : newest) rings.push_back(std::move(ring));
  return rings;
}

}  // namespace paceline::agent
