#include "paceline/cli/trace/job_trace.h"

#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace paceline::cli {
namespace {

// "name+" where a stretch begins, "-" where it ends, "name" for a moment; by the track's name.
std::map<std::string, std::vector<std::string>> ReadTrace(const std::string& bytes) {
  std::map<uint64_t, std::string> names;
  std::map<std::string, std::vector<std::string>> tracks;
  protozero::pbf_reader trace(bytes);
  while (trace.next(1)) {
    protozero::pbf_reader packet = trace.get_message();
    uint64_t at = 0;
    while (packet.next()) {
      if (packet.tag() == 8) {
        at = packet.get_uint64();
      } else if (packet.tag() == 60) {
        protozero::pbf_reader track = packet.get_message();
        uint64_t uuid = 0;
        while (track.next()) {
          if (track.tag() == 1) {
            uuid = track.get_uint64();
          } else if (track.tag() == 2) {
            names[uuid] = track.get_string();
          } else {
            track.skip();
          }
        }
      } else if (packet.tag() == 11) {
        protozero::pbf_reader event = packet.get_message();
        int32_t type = 0;
        uint64_t track = 0;
        std::string name;
        while (event.next()) {
          if (event.tag() == 9) {
            type = event.get_enum();
          } else if (event.tag() == 11) {
            track = event.get_uint64();
          } else if (event.tag() == 23) {
            name = event.get_string();
          } else {
            event.skip();
          }
        }
        const char* mark = type == 1 ? "+" : type == 2 ? "-" : "";
        tracks[names[track]].push_back(std::to_string(at) + " " + name + mark);
      } else {
        packet.skip();
      }
    }
  }
  return tracks;
}

FlightEntry Done(uint64_t number, FlightKind kind, const std::string& operation, int64_t begun,
                 int64_t completed) {
  return {.number = number,
          .kind = kind,
          .operation = operation,
          .begun_ns = begun,
          .completed_ns = completed};
}

// The rings' clock stands at 1000 when the wall clock stands at 5000.
class JobTraceTest : public ::testing::Test {
 protected:
  JobTrace Make(int64_t from = 0) {
    TraceInput input{.job_id = "j", .events = &events_};
    input.hosts = {{Instant::FromNanoseconds(5000), 1000}};
    input.from = Instant::FromNanoseconds(from);
    input.ranks = {rank_};
    return MakeJobTrace(input);
  }
  std::vector<wire::JobEvent> events_;
  RankTrace rank_{.node = "n", .ring = {.is_alive = true}};
};

TEST_F(JobTraceTest, PutsPhasesOnTheWallClock) {
  rank_.ring.entries = {Done(0, FlightKind::kPhase, "data", 100, 0),
                        Done(1, FlightKind::kPhase, "forward", 300, 0)};
  EXPECT_EQ(ReadTrace(Make().bytes)["phase"],
            (std::vector<std::string>{"4100 data+", "4300 -", "4300 forward+", "5000 -"}));
  rank_.ring.is_alive = false;
  rank_.ring.last_event_ns = 400;
  EXPECT_EQ(ReadTrace(Make().bytes)["phase"].back(), "4400 -");
}

TEST_F(JobTraceTest, GivesCollectivesThatOverlapTracksOfTheirOwn) {
  rank_.ring.entries = {Done(0, FlightKind::kCollective, "all_reduce", 100, 300),
                        Done(1, FlightKind::kCollective, "all_gather", 200, 400),
                        Done(2, FlightKind::kCollective, "barrier", 300, 0)};
  auto tracks = ReadTrace(Make().bytes);
  EXPECT_EQ(tracks["collectives"],
            (std::vector<std::string>{"4100 all_reduce+", "4300 -", "4300 barrier+", "5000 -"}));
  EXPECT_EQ(tracks["collectives at the same time"],
            (std::vector<std::string>{"4200 all_gather+", "4400 -"}));
}

TEST_F(JobTraceTest, CutsWhatIsOlderThanWasAskedFor) {
  rank_.ring.entries = {Done(0, FlightKind::kCollective, "old", 100, 150),
                        Done(1, FlightKind::kCollective, "half", 150, 350)};
  EXPECT_EQ(ReadTrace(Make(4200).bytes)["collectives"],
            (std::vector<std::string>{"4200 half+", "4350 -"}));
}

TEST_F(JobTraceTest, SaysFromWhenOnAFullRingIsComplete) {
  rank_.ring.rank = 3;
  rank_.ring.entries = {Done(7, FlightKind::kPhase, "data", 200, 0)};
  EXPECT_EQ(Make().short_rank, -1);
  rank_.ring.whole_from_ns = 100;
  const JobTrace trace = Make();
  EXPECT_EQ(trace.short_rank, 3);
  EXPECT_EQ(trace.complete_from.nanoseconds(), 4100);
  EXPECT_EQ(Make(4500).short_rank, -1);
}

TEST_F(JobTraceTest, ShowsWorldsAndTheTimeBetweenThem) {
  events_ = {{.seq = 1,
              .time_ns = 1000,
              .kind = "world_formed",
              .generation = 1,
              .details = {{"restart_count", "0"}}},
             {.seq = 2, .time_ns = 1500, .kind = "world_running"},
             {.seq = 3, .time_ns = 2000, .kind = "world_ended"},
             // Generations skip, and counts do not.
             {.seq = 4,
              .time_ns = 2200,
              .kind = "world_formed",
              .generation = 66,
              .details = {{"restart_count", "1"}}},
             {.seq = 5, .time_ns = 2500, .kind = "world_running"}};
  auto tracks = ReadTrace(Make(1800).bytes);
  EXPECT_EQ(tracks["worlds"],
            (std::vector<std::string>{"1800 world 1+", "2000 -", "2200 world 2+", "5000 -"}));
  EXPECT_EQ(tracks["incidents"], (std::vector<std::string>{"2000 no world trains+", "2500 -"}));
  EXPECT_EQ(tracks["events"], (std::vector<std::string>{"2000 world_ended", "2200 world_formed",
                                                        "2500 world_running"}));
}

}  // namespace
}  // namespace paceline::cli
