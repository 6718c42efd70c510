#include "paceline/wire/codec/history_codec.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "paceline/v1/control.pb.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

constexpr size_t kKeptTextMax = 240;    // of a sentence or a detail, once texts are cut
constexpr size_t kKeptNodesMax = 32;    // of the status
constexpr size_t kKeptMembersMax = 16;  // of a world
constexpr size_t kEventsDroppedAtOnce = 4;

void CutKeptText(std::string* text) {
  if (text->size() > kKeptTextMax) *text = text->substr(0, kKeptTextMax) + "…";
}

void CutKeptTexts(JobEvent* event) {
  CutKeptText(&event->sentence);
  for (auto& [name, value] : event->details) CutKeptText(&value);
}

std::string KeptBytesOf(const KeptHistory& history) {
  v1::KeptHistory message;
  ToProto(history.status, message.mutable_status());
  for (const JobEvent& event : history.events) ToProto(event, message.add_events());
  return message.SerializeAsString();
}

}  // namespace

std::string EncodeHistory(KeptHistory history) {
  for (NodeStatus& node : history.status.nodes) node.ranks.clear();
  for (JobEvent& event : history.events) {
    if (event.members.size() > kKeptMembersMax) event.members.clear();
  }
  history.status.plan.sentence.clear();
  history.status.plan.plan.clear();
  std::string bytes = KeptBytesOf(history);
  if (bytes.size() <= kHistoryBytesMax) return bytes;
  for (JobEvent& event : history.events) CutKeptTexts(&event);
  CutKeptText(&history.status.final_reason);
  CutKeptText(&history.status.pending);
  bytes = KeptBytesOf(history);
  if (bytes.size() > kHistoryBytesMax && history.status.nodes.size() > kKeptNodesMax) {
    history.status.nodes.resize(kKeptNodesMax);
    bytes = KeptBytesOf(history);
  }
  while (bytes.size() > kHistoryBytesMax && !history.events.empty()) {
    const size_t count = std::min(kEventsDroppedAtOnce, history.events.size());
    history.events.erase(history.events.begin(),
                         history.events.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = KeptBytesOf(history);
  }
  return bytes.size() <= kHistoryBytesMax ? bytes : "";
}

absl::StatusOr<KeptHistory> HistoryFromText(std::string_view text) {
  std::string bytes;
  v1::KeptHistory message;
  if (!absl::Base64Unescape({text.data(), text.size()}, &bytes) ||
      !message.ParseFromString(bytes)) {
    return absl::DataLossError("the job's history cannot be read");
  }
  KeptHistory history;
  if (const auto status = FromProto(message.status(), &history.status); !status.ok()) return status;
  for (const v1::JobEvent& encoded : message.events()) {
    JobEvent event;
    if (const auto status = FromProto(encoded, &event); !status.ok()) return status;
    const bool is_in_order = history.events.empty() || history.events.back().seq < event.seq;
    if (is_in_order) history.events.push_back(std::move(event));
  }
  return history;
}

}  // namespace paceline::wire
