#include "paceline/model/lease_frame.h"

#include <array>
#include <bit>
#include <cstring>

#include "paceline/base/check.h"

namespace paceline {

static_assert(std::endian::native == std::endian::little, "frames are copied as they lie");

void AppendFrame(const LeaseFrame& frame, std::string* bytes) {
  CHECK(frame.text.size() <= kLeaseFrameTextMax, "the sender has cut it");
  const auto put = [bytes](const auto& value) {
    bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(static_cast<uint32_t>(kLeaseFrameHeadBytes + frame.text.size()));
  put(frame.op), put(frame.flags), put(frame.peer), put(uint32_t{0});
  put(frame.number), put(frame.lease), put(frame.begin), put(frame.end);
  bytes->append(frame.text);
}

std::optional<size_t> TakeFrames(std::string_view bytes, std::vector<LeaseFrame>* frames) {
  size_t used = 0;
  while (bytes.size() - used >= kLeaseFrameHeadBytes) {
    const char* at = bytes.data() + used;
    const auto take = [&at](auto* value) {
      at = (std::memcpy(value, at, sizeof(*value)), at + sizeof(*value));
    };
    uint32_t size = 0;
    take(&size);
    if (size < kLeaseFrameHeadBytes || size > kLeaseFrameBytesMax) return std::nullopt;
    if (bytes.size() - used < size) break;
    LeaseFrame& frame = frames->emplace_back();
    uint32_t unused = 0;
    take(&frame.op), take(&frame.flags), take(&frame.peer), take(&unused);
    take(&frame.number), take(&frame.lease), take(&frame.begin), take(&frame.end);
    frame.text.assign(at, size - kLeaseFrameHeadBytes);
    used += size;
  }
  return used;
}

namespace {
constexpr size_t kNameBytesMax = 200;
constexpr uint64_t kOrdinalsMax = uint64_t{1} << 53;
using Numbers = std::array<uint64_t, 13>;

constexpr uint64_t kHasUnits = 8;

// 1: follows checkpoints; 3: and all ranks get equally many ordinals. Plus 4 for a stream, which
// has no equal shares. Plus kHasUnits if the sizes of a batch and an epoch follow the numbers.
uint64_t Following(const LeaseOpen& open) {
  if (open.unit > 0) {
    return kHasUnits + (open.is_stream ? 4 : 0) + (open.follows_checkpoints ? 1 : 0);
  }
  if (open.is_stream) return open.follows_checkpoints ? 5 : 4;
  if (!open.follows_checkpoints) return 0;
  return open.is_even ? 3 : 1;
}
}  // namespace

std::string EncodeOpen(const LeaseOpen& open) {
  const Numbers numbers = {open.ordinals,    open.rank,        open.world_size,   open.generation,
                           open.incarnation, open.lease_min,   open.lease_max,    open.lease_first,
                           open.lease_ms,    open.deadline_ms, open.failures_max, Following(open),
                           open.name.size()};
  std::string text(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  if (open.unit > 0) {
    const std::array<uint64_t, 2> units = {open.unit, open.epoch};
    text.append(reinterpret_cast<const char*>(units.data()), sizeof(units));
  }
  return text + open.name + open.terms;
}

std::optional<LeaseOpen> ParseOpen(std::string_view text) {
  Numbers n{};
  if (text.size() < sizeof(n)) return std::nullopt;
  std::memcpy(n.data(), text.data(), sizeof(n));
  text.remove_prefix(sizeof(n));
  std::array<uint64_t, 2> units{};
  if (n[11] >= kHasUnits && n[11] != kHasUnits + 3) {
    if (text.size() < sizeof(units)) return std::nullopt;
    std::memcpy(units.data(), text.data(), sizeof(units));
    text.remove_prefix(sizeof(units));
    if (units[0] == 0 || units[0] > kOrdinalsMax || units[1] > kOrdinalsMax) return std::nullopt;
    n[11] -= kHasUnits;
  }
  const bool is_whole = n[0] <= kOrdinalsMax && n[1] < n[2] && n[5] >= 1 && n[6] >= n[5] &&
                        n[8] >= 1 && n[9] >= 1 && n[8] <= 86'400'000 && n[9] <= 86'400'000 &&
                        n[10] >= 1 && (n[11] <= 1 || (n[11] >= 3 && n[11] <= 5)) && n[12] >= 1 &&
                        n[12] <= kNameBytesMax && n[12] <= text.size();
  if (!is_whole) return std::nullopt;
  const std::string_view name = text.substr(0, n[12]);
  // The name becomes one line in the journal and in commands' output.
  if (name.find('\n') != std::string_view::npos) return std::nullopt;
  return LeaseOpen{.name = std::string(name),
                   .terms = std::string(text.substr(n[12])),
                   .ordinals = n[0],
                   .rank = n[1],
                   .world_size = n[2],
                   .generation = n[3],
                   .incarnation = n[4],
                   .lease_min = n[5],
                   .lease_max = n[6],
                   .lease_first = n[7],
                   .lease_ms = n[8],
                   .deadline_ms = n[9],
                   .failures_max = n[10],
                   .follows_checkpoints = (n[11] & 1) != 0,
                   .is_even = n[11] == 3,
                   .is_stream = (n[11] & 4) != 0,
                   .unit = units[0],
                   .epoch = units[1]};
}

}  // namespace paceline
