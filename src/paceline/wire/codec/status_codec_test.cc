// What a person asks of the master survives encoding and decoding.

#include "gtest/gtest.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

TEST(StatusCodec, AStatusSurvives) {
  JobStatus status{.job_id = "j",
                   .name = "n",
                   .phase = "running",
                   .pending = "trains",
                   .master_pid = 4,
                   .master_incarnation = 5,
                   .generation = 6,
                   .world_size = 7,
                   .restart_count = 8,
                   .failures = 9,
                   .step = 10,
                   .loss = 0.5,
                   .goodput = 0.75,
                   .steps_per_second = 1.5,
                   .since_step = Duration::Seconds(13),
                   .steps_total = 14,
                   .age = Duration::Seconds(11),
                   .journal = "ok",
                   .last_seq = 12,
                   .exit_code = 0,
                   .final_reason = "done"};
  status.nodes.push_back(
      {.id = 1, .name = "node0", .state = "seated", .connected = true, .seat = 0});
  status.nodes[0].ranks.push_back({.rank = 1, .pid = 2, .generation = 3, .state = "running"});
  status.checkpoints = {.directory = "/d",
                        .memory_step = 12,
                        .storage_step = 10,
                        .writing_step = 11,
                        .storage_bytes = 1 << 30,
                        .problem = "the disk is full",
                        .restored = "goes on after step 9, from memory",
                        .restored_step = 9,
                        .memory_restores = 3,
                        .storage_restores = 1,
                        .commits = 4,
                        .storage_age = Duration::Seconds(5)};
  status.excluded_hosts = {"host3", "host4"};
  status.links = {"the link between n1 and n2 may be bad: no route to host"};
  status.hang = HangStatus{.seq = 3, .ranks = {1, 2}, .sentence = "Ranks 1 and 2 do not go on."};
  pb::JobStatus message;
  ToProto(status, &message);
  JobStatus decoded;
  ASSERT_TRUE(FromProto(message, &decoded).ok());
  EXPECT_EQ(decoded, status);
}

TEST(StatusCodec, AnEventSurvives) {
  const JobEvent event{.seq = 1,
                       .time_ns = 2,
                       .kind = "world_formed",
                       .node = "n",
                       .rank = 0,
                       .generation = 3,
                       .step = -1,
                       .sentence = "s",
                       .causes = {1, 2},
                       .details = {{"a", "b"}},
                       .members = {{"n", 1, 2, 3}}};
  pb::JobEvent encoded;
  ToProto(event, &encoded);
  JobEvent back;
  ASSERT_TRUE(FromProto(encoded, &back).ok());
  EXPECT_EQ(back, event);
}

}  // namespace
}  // namespace paceline::wire
