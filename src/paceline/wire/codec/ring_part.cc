#include "paceline/wire/codec/ring_part.h"

#include <map>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

// The names of one part. Records say their places.
class RingNames {
 public:
  explicit RingNames(pb::RingPart* part) : part_(part) {}

  uint32_t Place(const std::string& text) {
    if (text.empty()) return 0;
    const auto next = static_cast<uint32_t>(places_.size() + 1);
    const auto [it, is_new] = places_.try_emplace(CleanText(text), next);
    if (is_new) part_->add_names(it->first);
    return it->second;
  }

 private:
  pb::RingPart* const part_;
  std::map<std::string, uint32_t> places_;
};

void FillRecord(const FlightEntry& from, RingNames* names, pb::RingRecord* to) {
  to->set_number(from.number);
  to->set_kind(static_cast<uint32_t>(from.kind));
  to->set_group(names->Place(from.group));
  to->set_operation(names->Place(from.operation));
  to->set_dtype(names->Place(from.dtype));
  to->set_site(names->Place(from.site));
  to->set_sequence(from.sequence);
  to->set_bytes(from.bytes);
  to->set_begun_ns(from.begun_ns);
  to->set_completed_ns(from.completed_ns);
}

absl::Status TakeName(const pb::RingPart& part, uint32_t place, std::string* to) {
  if (place == 0) return absl::OkStatus();
  if (place > static_cast<uint32_t>(part.names_size())) return Invalid("name", "is not there");
  *to = part.names(static_cast<int>(place - 1));
  return absl::OkStatus();
}

absl::Status TakeRecord(const pb::RingPart& part, const pb::RingRecord& from, FlightEntry* to) {
  if (from.kind() > static_cast<uint32_t>(FlightKind::kPhase)) return Invalid("kind", "is unknown");
  *to = {.number = from.number(),
         .kind = static_cast<FlightKind>(from.kind()),
         .sequence = from.sequence(),
         .bytes = from.bytes(),
         .begun_ns = from.begun_ns(),
         .completed_ns = from.completed_ns()};
  RETURN_IF_ERROR(TakeName(part, from.group(), &to->group));
  RETURN_IF_ERROR(TakeName(part, from.operation(), &to->operation));
  RETURN_IF_ERROR(TakeName(part, from.dtype(), &to->dtype));
  return TakeName(part, from.site(), &to->site);
}

}  // namespace

std::string EncodeRingPart(const RingPart& part) {
  pb::RingPart to;
  to.set_boot_id(Encode(part.boot_id));
  to.set_wall_ns(part.now.wall.nanoseconds());
  to.set_monotonic_ns(part.now.monotonic_ns);
  to.set_has_ring(part.has_ring);
  to.set_has_more(part.has_more);
  const RingSlice& slice = part.slice;
  to.set_rank(static_cast<uint32_t>(slice.rank));
  to.set_generation(slice.generation);
  to.set_last_event_ns(slice.last_event_ns);
  to.set_is_alive(slice.is_alive);
  to.set_whole_from_ns(slice.whole_from_ns);
  to.set_has_older(slice.has_older);
  RingNames names(&to);
  for (const FlightEntry& entry : slice.entries) FillRecord(entry, &names, to.add_records());
  return to.SerializeAsString();
}

absl::StatusOr<RingPart> DecodeRingPart(std::string_view content) {
  pb::RingPart from;
  const bool is_read = content.size() <= kRingPartBytesMax &&
                       from.ParseFromArray(content.data(), static_cast<int>(content.size()));
  if (!is_read) return Invalid("ring", "cannot be read");
  if (static_cast<size_t>(from.records_size()) > kRingSliceMax) {
    return Invalid("records", "are too many");
  }
  RingPart part{.boot_id = from.boot_id(),
                .now = {Instant::FromNanoseconds(from.wall_ns()), from.monotonic_ns()},
                .has_ring = from.has_ring(),
                .has_more = from.has_more(),
                .slice = {.rank = from.rank(),
                          .generation = from.generation(),
                          .last_event_ns = from.last_event_ns(),
                          .is_alive = from.is_alive(),
                          .whole_from_ns = from.whole_from_ns(),
                          .has_older = from.has_older()}};
  for (const pb::RingRecord& record : from.records()) {
    RETURN_IF_ERROR(TakeRecord(from, record, &part.slice.entries.emplace_back()));
  }
  return part;
}

}  // namespace paceline::wire
