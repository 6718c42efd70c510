#pragma once

// A trace in Perfetto's form: tracks with stretches of time and moments, as packets of TrackEvent.
// Pure. Times are nanoseconds since 1970.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::cli {

using TraceNotes = std::vector<std::pair<std::string_view, std::string>>;  // shown on a click

class PerfettoWriter {
 public:
  using Track = uint64_t;

  // A group of tracks, or one track by itself. Tracks of a group are in the order of their making.
  Track AddGroup(const std::string& name);
  Track AddTrack(Track group, const std::string& name);
  // Stretches of a track must not overlap, except those that lie inside another one.
  void AddStretch(Track track, const std::string& name, int64_t begin_ns, int64_t end_ns,
                  const TraceNotes& notes);
  void AddMoment(Track track, const std::string& name, int64_t at_ns, const TraceNotes& notes);

  // The whole file.
  std::string Finish();

 private:
  enum class EventType { kBegin = 1, kEnd = 2, kMoment = 3 };
  struct Event {
    int64_t at_ns = 0;
    std::string packet;
  };
  Track Describe(const std::string& name, Track parent, bool is_group);
  void AddEvent(EventType type, Track track, int64_t at_ns, const std::string& name,
                const TraceNotes& notes);

  Track last_track_ = 0;
  std::string descriptions_;
  std::vector<Event> events_;
};

}  // namespace paceline::cli
