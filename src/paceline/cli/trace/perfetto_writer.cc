#include "paceline/cli/trace/perfetto_writer.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "paceline/base/utf8.h"

namespace paceline::cli {
namespace {

// Numbers of fields in Perfetto's protos: of Trace, TracePacket, TrackDescriptor, TrackEvent and
// DebugAnnotation.
constexpr uint32_t kTracePacket = 1;
constexpr uint32_t kPacketTimestamp = 8;
constexpr uint32_t kPacketSequenceId = 10;
constexpr uint32_t kPacketTrackEvent = 11;
constexpr uint32_t kPacketSequenceFlags = 13;
constexpr uint32_t kPacketTrackDescriptor = 60;
constexpr uint32_t kTrackUuid = 1;
constexpr uint32_t kTrackName = 2;
constexpr uint32_t kTrackParent = 5;
constexpr uint32_t kTrackChildOrdering = 11;
constexpr uint32_t kTrackSiblingRank = 12;
constexpr uint32_t kEventNote = 4;  // debug_annotations
constexpr uint32_t kEventType = 9;
constexpr uint32_t kEventTrack = 11;
constexpr uint32_t kEventName = 23;
constexpr uint32_t kNoteText = 6;  // string_value
constexpr uint32_t kNoteName = 10;

constexpr uint32_t kPacketWriter = 1;   // all packets are of one writer
constexpr uint32_t kNothingBefore = 1;  // a flag: nothing before is referred to
constexpr int32_t kAsRanked = 3;        // ChildTracksOrdering.EXPLICIT

using PbWriter = protozero::pbf_writer;

}  // namespace

PerfettoWriter::Track PerfettoWriter::Describe(const std::string& name, Track parent,
                                               bool is_group) {
  const Track track = ++last_track_;
  PbWriter writer(descriptions_);
  PbWriter packet_writer(writer, kTracePacket);
  if (track == 1) packet_writer.add_uint32(kPacketSequenceFlags, kNothingBefore);
  packet_writer.add_uint32(kPacketSequenceId, kPacketWriter);
  PbWriter one(packet_writer, kPacketTrackDescriptor);
  one.add_uint64(kTrackUuid, track);
  one.add_string(kTrackName, CleanText(name));
  if (parent != 0) one.add_uint64(kTrackParent, parent);
  if (is_group) one.add_enum(kTrackChildOrdering, kAsRanked);
  one.add_int32(kTrackSiblingRank, static_cast<int32_t>(track));
  return track;
}

PerfettoWriter::Track PerfettoWriter::AddGroup(const std::string& name) {
  return Describe(name, 0, /*is_group=*/true);
}

PerfettoWriter::Track PerfettoWriter::AddTrack(Track group, const std::string& name) {
  return Describe(name, group, /*is_group=*/false);
}

void PerfettoWriter::AddEvent(EventType type, Track track, int64_t at_ns, const std::string& name,
                              const TraceNotes& notes) {
  std::string bytes;
  {
    PbWriter writer(bytes);
    PbWriter packet_writer(writer, kTracePacket);
    packet_writer.add_uint64(kPacketTimestamp, static_cast<uint64_t>(at_ns));
    packet_writer.add_uint32(kPacketSequenceId, kPacketWriter);
    PbWriter one(packet_writer, kPacketTrackEvent);
    one.add_enum(kEventType, static_cast<int32_t>(type));
    one.add_uint64(kEventTrack, track);
    if (type != EventType::kEnd) one.add_string(kEventName, CleanText(name));
    for (const auto& [key, value] : notes) {
      PbWriter note(one, kEventNote);
      note.add_string(kNoteName, std::string(key));
      note.add_string(kNoteText, CleanText(value));
    }
  }
  events_.push_back({at_ns, std::move(bytes)});
}

void PerfettoWriter::AddStretch(Track track, const std::string& name, int64_t begin_ns,
                                int64_t end_ns, const TraceNotes& notes) {
  AddEvent(EventType::kBegin, track, begin_ns, name, notes);
  AddEvent(EventType::kEnd, track, std::max(begin_ns, end_ns), "", {});
}

void PerfettoWriter::AddMoment(Track track, const std::string& name, int64_t at_ns,
                               const TraceNotes& notes) {
  AddEvent(EventType::kMoment, track, at_ns, name, notes);
}

std::string PerfettoWriter::Finish() {
  // Readers sort by time; of equal times the order here counts, so an end stays before the next
  // begin of its track.
  std::ranges::stable_sort(events_, {}, &Event::at_ns);
  std::string text = std::move(descriptions_);
  for (const Event& event : events_) text += event.packet;
  return text;
}

}  // namespace paceline::cli
