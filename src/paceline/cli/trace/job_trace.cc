#include "paceline/cli/trace/job_trace.h"

#include <algorithm>
#include <map>
#include <optional>

#include "paceline/base/text.h"
#include "paceline/cli/settings/value.h"
#include "paceline/cli/trace/host_clocks.h"
#include "paceline/cli/trace/perfetto_writer.h"

namespace paceline::cli {
namespace {

constexpr size_t kLanesMax = 16;  // of collectives of one rank that overlap

class RingTracer {
 public:
  explicit RingTracer(const TraceInput& input) : input_(input), trace_{.from = input.from} {
    trace_.complete_from = input.from;
    std::vector<HostedRing> rings;
    for (const RankTrace& rank : input.ranks) rings.push_back({rank.host, &rank.ring});
    HostClocks clocks = AlignHosts(input.hosts, rings);
    ahead_ = std::move(clocks.ahead_ns);
    trace_.unaligned = std::move(clocks.unaligned);
  }

  JobTrace Make() {
    AddEvents();
    for (const RankTrace& rank : input_.ranks) AddRank(rank);
    trace_.ranks = input_.ranks.size();
    trace_.bytes = writer_.Finish();
    return std::move(trace_);
  }

 private:
  int64_t from() const { return input_.from.nanoseconds(); }
  int64_t now() const { return input_.hosts.front().wall.nanoseconds(); }
  // A time of a ring of the rank that is added, on the first host's wall clock.
  int64_t Wall(int64_t monotonic_ns) const { return monotonic_ns + ahead_[host_]; }

  // Cut at the begin of the axis.
  void AddStretch(PerfettoWriter::Track track, const std::string& name, int64_t begin, int64_t end,
                  const TraceNotes& notes = {}) {
    if (end < from() || begin > now()) return;
    writer_.AddStretch(track, name, std::max(begin, from()), std::min(end, now()), notes);
  }

  void AddEvents() {
    const auto group = writer_.AddGroup(Concat("job ", input_.job_id));
    const auto worlds = writer_.AddTrack(group, "worlds");
    const auto incidents = writer_.AddTrack(group, "incidents");
    const auto moments = writer_.AddTrack(group, "events");
    std::optional<int64_t> formed;
    std::optional<int64_t> ended;
    std::string name;
    for (const wire::JobEvent& event : *input_.events) {
      const int64_t at = event.time_ns;
      if (event.kind == "world_formed") {
        formed = at;
        name = NameOfWorld(event);
      } else if (event.kind == "world_ended") {
        if (formed.has_value()) AddStretch(worlds, name, *formed, at);
        formed.reset();
        ended = at;
      } else if (event.kind == "world_running") {
        if (ended.has_value()) AddStretch(incidents, "no world trains", *ended, at);
        ended.reset();
      } else if (event.kind == "job_finished") {
        if (formed.has_value()) AddStretch(worlds, name, *formed, at);
        formed.reset();
        ended.reset();
      }
    }
    if (formed.has_value()) AddStretch(worlds, name, *formed, now());
    if (ended.has_value()) AddStretch(incidents, "no world trains", *ended, now());
    for (const wire::JobEvent& event : *input_.events) {
      if (event.time_ns < from()) continue;
      writer_.AddMoment(
          moments, event.kind, event.time_ns,
          {{"sentence", event.sentence}, {"explained by", Concat("paceline why ", event.seq)}});
    }
  }

  // Worlds have the count that people read, which is in the event that one was formed.
  static std::string NameOfWorld(const wire::JobEvent& formed) {
    const auto restarts = formed.details.find("restart_count");
    const std::string text = restarts == formed.details.end() ? "" : restarts->second;
    return Concat("world ", ParseInteger(text).value_or(0) + 1);
  }

  void AddRank(const RankTrace& rank) {
    host_ = rank.host;
    const RingSlice& ring = rank.ring;
    const auto group = writer_.AddGroup(Concat("rank ", ring.rank, " on ", rank.node));
    const auto phases = writer_.AddTrack(group, "phase");
    const FlightEntry* phase = nullptr;
    for (const FlightEntry& entry : ring.entries) {
      if (entry.kind != FlightKind::kPhase) continue;
      if (phase != nullptr) {
        AddStretch(phases, phase->operation, Wall(phase->begun_ns), Wall(entry.begun_ns));
      }
      phase = &entry;
    }
    end_ = ring.is_alive ? now() : Wall(ring.last_event_ns);
    if (phase != nullptr) AddStretch(phases, phase->operation, Wall(phase->begun_ns), end_);
    AddCollectives(ring, group);
    NoteBegin(ring);
  }

  // A ring that is full has lost what was before its oldest record.
  void NoteBegin(const RingSlice& ring) {
    if (ring.whole_from_ns == 0) return;
    const Instant begin = Instant::FromNanoseconds(Wall(ring.whole_from_ns));
    if (begin <= trace_.complete_from) return;
    trace_.complete_from = begin;
    trace_.short_rank = ring.rank;
  }

  // Collectives may overlap. Each goes to the first lane that is free.
  void AddCollectives(const RingSlice& ring, PerfettoWriter::Track group) {
    struct Lane {
      PerfettoWriter::Track track = 0;
      int64_t free_at = 0;
    };
    std::vector<Lane> lanes;
    std::vector<const FlightEntry*> entries;
    for (const FlightEntry& entry : ring.entries) {
      if (entry.kind != FlightKind::kPhase && entry.begun_ns > 0) entries.push_back(&entry);
    }
    std::ranges::stable_sort(entries, {}, [](const FlightEntry* e) { return e->begun_ns; });
    for (const FlightEntry* entry : entries) {
      const int64_t begin = Wall(entry->begun_ns);
      const int64_t end = entry->is_complete() ? Wall(entry->completed_ns) : end_;
      if (end < from()) continue;
      auto lane = std::ranges::find_if(lanes, [&](const Lane& l) { return l.free_at <= begin; });
      if (lane == lanes.end()) {
        if (lanes.size() == kLanesMax) continue;
        const std::string name = lanes.empty() ? "collectives" : "collectives at the same time";
        lanes.push_back({writer_.AddTrack(group, name), 0});
        lane = std::prev(lanes.end());
      }
      lane->free_at = end;
      AddStretch(lane->track, entry->operation, begin, end, NotesOf(*entry));
    }
  }

  static TraceNotes NotesOf(const FlightEntry& entry) {
    TraceNotes notes = {{"group", entry.group},
                        {"bytes", std::to_string(entry.bytes)},
                        {"dtype", entry.dtype},
                        {"called at", entry.site}};
    if (entry.kind == FlightKind::kCollective) {
      notes.emplace_back("number in its group", std::to_string(entry.sequence));
    }
    if (!entry.is_complete()) notes.emplace_back("state", "not complete");
    return notes;
  }

  const TraceInput& input_;
  PerfettoWriter writer_;
  JobTrace trace_;
  std::vector<int64_t> ahead_;  // see HostClocks
  size_t host_ = 0;             // of the rank that is added
  int64_t end_ = 0;             // of what the rank that is added has not ended
};

}  // namespace

JobTrace MakeJobTrace(const TraceInput& input) { return RingTracer(input).Make(); }

}  // namespace paceline::cli
