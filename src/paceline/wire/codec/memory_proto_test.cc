// What messages say of the memory of nodes.

#include "paceline/wire/codec/memory_proto.h"

#include <gtest/gtest.h>

#include "paceline/wire/codec/from_proto.h"

namespace paceline::wire {
namespace {

TEST(MemoryProto, AHeartbeatTellsTheUseOrNothing) {
  for (const MemoryBound bound : {MemoryBound::kNode, MemoryBound::kTold}) {
    Heartbeat beat;
    beat.memory = NodeMemory{7, uint64_t{1} << 45, bound};
    pb::AgentMessage message;
    ToProto(beat, &message);
    const auto read = FromProto(message);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(std::get<Heartbeat>(*read).memory, beat.memory);
  }
  pb::AgentMessage message;
  ToProto(Heartbeat{}, &message);
  const auto read = FromProto(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(std::get<Heartbeat>(*read).memory.has_value());
}

TEST(MemoryProto, AnUnknownBoundIsRefused) {
  pb::AgentMessage message;
  message.mutable_heartbeat()->mutable_memory()->set_limit(5);
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(MemoryProto, AnAssignmentAndASpecKeepTheirLimits) {
  Assignment assignment;
  assignment.memory_limit = 12;
  pb::MasterMessage message;
  ToProto(assignment, &message);
  const auto order = FromProto(message);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(std::get<Assignment>(*order), assignment);

  Welcome welcome;
  welcome.spec.job_id = "j";
  welcome.spec.memory_node = 8;
  welcome.spec.memory_most = 16;
  message.Clear();
  ToProto(welcome, &message);
  const auto spec = FromProto(message);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(std::get<Welcome>(*spec).spec, welcome.spec);
}

TEST(MemoryProto, AStatusKeepsItsSentences) {
  JobStatus status;
  status.memory = {"n1 uses 6 GiB", "n2 uses 7 GiB"};
  pb::JobStatus message;
  ToProto(status, &message);
  JobStatus read;
  ASSERT_TRUE(FromProto(message, &read).ok());
  EXPECT_EQ(read.memory, status.memory);
}

}  // namespace
}  // namespace paceline::wire
